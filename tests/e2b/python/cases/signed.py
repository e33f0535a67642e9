"""Signed URLs, which need no API key."""

import urllib.error
import urllib.request

from cases import case
from sdk import do


def fetch(url, data=None, headers={}):
    import ssl

    request = urllib.request.Request(url, data=data, headers=headers)
    with urllib.request.urlopen(request, timeout=30, context=ssl.create_default_context()) as answer:
        return answer.read()


@case()
async def a_file_is_downloaded_by_signed_url(world, sandbox):
    await do(sandbox.files.write("shared.txt", "shared"))
    assert fetch(sandbox.download_url("shared.txt")) == b"shared"


@case()
async def an_expired_signed_url_is_refused(world, sandbox):
    await do(sandbox.files.write("shared.txt", "shared"))
    url = sandbox.download_url("shared.txt", use_signature_expiration=-100)
    try:
        fetch(url)
    except urllib.error.HTTPError as error:
        assert error.code == 401, error
    else:
        raise AssertionError("it opened")


@case()
async def a_signed_url_is_refused_for_another_file(world, sandbox):
    await do(sandbox.files.write("shared.txt", "shared"))
    await do(sandbox.files.write("secret.txt", "secret"))
    try:
        fetch(sandbox.download_url("shared.txt").replace("shared.txt", "secret.txt"))
    except urllib.error.HTTPError as error:
        assert error.code == 401, error
    else:
        raise AssertionError("it opened")


@case()
async def a_file_is_uploaded_by_signed_url(world, sandbox):
    boundary = "frontier"
    body = (
        f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="up.txt"\r\n\r\nuploaded\r\n--{boundary}--\r\n'
    ).encode()
    fetch(sandbox.upload_url("up.txt"), body, {"Content-Type": f"multipart/form-data; boundary={boundary}"})
    assert await do(sandbox.files.read("up.txt")) == "uploaded"
