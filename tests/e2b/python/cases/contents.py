"""File contents in every format and size."""

import io
import os

from cases import case
from sdk import do


@case()
async def bytes_are_read_as_written(world, sandbox):
    data = bytes(range(256)) * 100
    await do(sandbox.files.write("bytes", data))
    assert bytes(await do(sandbox.files.read("bytes", format="bytes"))) == data


@case()
async def an_empty_file_is_a_file(world, sandbox):
    await do(sandbox.files.write("empty", ""))
    assert await do(sandbox.files.read("empty")) == ""
    assert (await do(sandbox.commands.run("stat -c %s empty"))).stdout == "0\n"


@case()
async def an_open_file_is_uploaded(world, sandbox):
    await do(sandbox.files.write("stream", io.BytesIO(b"from a stream")))
    assert await do(sandbox.files.read("stream")) == "from a stream"


@case()
async def a_file_is_read_as_a_stream(world, sandbox):
    data = os.urandom(3_000_000)
    await do(sandbox.files.write("pieces", data))
    stream = await do(sandbox.files.read("pieces", format="stream"))
    if world.is_async:
        read = b"".join([piece async for piece in stream])
    else:
        read = b"".join(stream)
    assert read == data


@case()
async def non_ascii_text_is_read_as_written(world, sandbox):
    text = "żółć 漢字 🦀\r\n\t"
    await do(sandbox.files.write("ünïcode/文件.txt", text))
    assert await do(sandbox.files.read("ünïcode/文件.txt")) == text


@case(timeout=300)
async def a_hundred_megabytes_are_written_and_read(world, sandbox):
    data = os.urandom(1_000_000) * 100
    await do(sandbox.files.write("large", data, request_timeout=240))
    assert (await do(sandbox.commands.run("stat -c %s large"))).stdout == "100000000\n"
    assert bytes(await do(sandbox.files.read("large", format="bytes", request_timeout=240))) == data


@case(since=(2, 20))
async def a_compressed_upload_arrives_complete(world, sandbox):
    await do(sandbox.files.write("packed", "x" * 1_000_000, gzip=True))
    assert await do(sandbox.files.read("packed", gzip=True)) == "x" * 1_000_000


@case(since=(2, 30))
async def metadata_of_a_file_is_returned(world, sandbox):
    await do(sandbox.files.write("described", "x", metadata={"author": "me", "kind": "note"}))
    info = await do(sandbox.files.get_info("described"))
    assert info.metadata == {"author": "me", "kind": "note"}, info
