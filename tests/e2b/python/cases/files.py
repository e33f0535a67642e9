"""Files and directories."""

import e2b
from cases import case
from sdk import do, fails


@case()
async def a_file_is_written_and_read(world, sandbox):
    info = await do(sandbox.files.write("note.txt", "hello"))
    assert (info.name, info.path) == ("note.txt", "/home/user/note.txt"), info
    assert await do(sandbox.files.read("note.txt")) == "hello"


@case()
async def a_file_is_replaced(world, sandbox):
    await do(sandbox.files.write("note.txt", "a longer first text"))
    await do(sandbox.files.write("note.txt", "short"))
    assert await do(sandbox.files.read("note.txt")) == "short"


@case()
async def writing_a_file_creates_parent_directories(world, sandbox):
    await do(sandbox.files.write("/home/user/a/b/c/d.txt", "deep"))
    assert await do(sandbox.files.read("a/b/c/d.txt")) == "deep"
    assert (await do(sandbox.commands.run("stat -c %U a/b/c a/b/c/d.txt"))).stdout == "user\nuser\n"


@case()
async def a_tilde_is_the_home_directory(world, sandbox):
    await do(sandbox.files.write("~/tilde.txt", "x"))
    assert await do(sandbox.files.exists("/home/user/tilde.txt"))


@case()
async def many_files_are_written_at_once(world, sandbox):
    write = getattr(sandbox.files, "write_files", None) or sandbox.files.write
    infos = await do(write([{"path": f"many/{n}.txt", "data": f"text {n}"} for n in range(20)]))
    assert [info.name for info in infos] == [f"{n}.txt" for n in range(20)]
    assert await do(sandbox.files.read("many/13.txt")) == "text 13"


@case()
async def a_missing_file_is_not_found(world, sandbox):
    await fails(e2b.NotFoundException, lambda: sandbox.files.read("missing.txt"), "missing.txt")


@case()
async def reading_a_directory_is_an_argument_error(world, sandbox):
    await do(sandbox.files.make_dir("folder"))
    await fails(e2b.InvalidArgumentException, lambda: sandbox.files.read("folder"))


@case()
async def creating_an_existing_directory_returns_false(world, sandbox):
    assert await do(sandbox.files.make_dir("one/two")) is True
    assert await do(sandbox.files.make_dir("one/two")) is False


@case()
async def exists_tells_entries_from_missing_paths(world, sandbox):
    await do(sandbox.files.write("here.txt", ""))
    assert await do(sandbox.files.exists("here.txt")) is True
    assert await do(sandbox.files.exists("there.txt")) is False


@case()
async def a_directory_is_listed(world, sandbox):
    await do(sandbox.files.make_dir("list/inner"))
    await do(sandbox.files.write("list/file.txt", "12345"))
    entries = {entry.name: entry for entry in await do(sandbox.files.list("list"))}
    assert set(entries) == {"inner", "file.txt"}
    assert entries["inner"].type == e2b.FileType.DIR and entries["file.txt"].type == e2b.FileType.FILE
    assert entries["file.txt"].path == "/home/user/list/file.txt"


@case()
async def a_directory_is_listed_to_a_depth(world, sandbox):
    await do(sandbox.files.write("deep/a/b/c.txt", ""))
    names = lambda entries: sorted(entry.path.removeprefix("/home/user/deep/") for entry in entries)
    assert names(await do(sandbox.files.list("deep"))) == ["a"]
    assert names(await do(sandbox.files.list("deep", depth=2))) == ["a", "a/b"]
    assert names(await do(sandbox.files.list("deep", depth=3))) == ["a", "a/b", "a/b/c.txt"]


@case()
async def listing_a_missing_directory_is_not_found(world, sandbox):
    await fails(e2b.NotFoundException, lambda: sandbox.files.list("nowhere"))


@case()
async def listing_to_depth_zero_is_an_argument_error(world, sandbox):
    await fails(e2b.InvalidArgumentException, lambda: sandbox.files.list(".", depth=0))


@case()
async def info_describes_a_file(world, sandbox):
    await do(sandbox.files.write("about.txt", "12345"))
    info = await do(sandbox.files.get_info("about.txt"))
    assert (info.name, info.size, info.owner, info.group) == ("about.txt", 5, "user", "user"), info
    assert info.mode == 0o644 and info.permissions == "-rw-r--r--", info
    assert abs(info.modified_time.timestamp() - __import__("time").time()) < 120


@case()
async def info_describes_a_link_with_its_target(world, sandbox):
    await do(sandbox.files.write("target.txt", "x"))
    await do(sandbox.commands.run("ln -s target.txt link"))
    info = await do(sandbox.files.get_info("link"))
    assert info.symlink_target == "/home/user/target.txt" or info.symlink_target == "target.txt", info
    # Whether the type is that of the link or of its target depends on the SDK version.
    assert info.type in (e2b.FileType.FILE, getattr(e2b.FileType, "SYMLINK", None)), info


@case()
async def a_file_is_renamed(world, sandbox):
    await do(sandbox.files.write("old.txt", "x"))
    info = await do(sandbox.files.rename("old.txt", "new/place.txt"))
    assert info.path == "/home/user/new/place.txt"
    assert not await do(sandbox.files.exists("old.txt"))
    assert await do(sandbox.files.read("new/place.txt")) == "x"


@case()
async def renaming_a_missing_file_is_not_found(world, sandbox):
    await fails(e2b.NotFoundException, lambda: sandbox.files.rename("missing", "other"))


@case()
async def a_file_is_removed(world, sandbox):
    await do(sandbox.files.write("gone.txt", "x"))
    await do(sandbox.files.remove("gone.txt"))
    assert not await do(sandbox.files.exists("gone.txt"))


@case()
async def a_directory_is_removed_with_its_content(world, sandbox):
    await do(sandbox.files.write("tree/a/b.txt", "x"))
    await do(sandbox.files.remove("tree"))
    assert not await do(sandbox.files.exists("tree"))
