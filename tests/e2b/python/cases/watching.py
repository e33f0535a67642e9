"""Watching directories."""

import e2b
from cases import case
from sdk import do, fails, until


async def watch(world, sandbox, path, **options):
    """Returns the watcher, and a function that returns the events so far."""
    seen = []
    if world.is_async:
        return await sandbox.files.watch_dir(path, on_event=seen.append, **options), lambda: seen
    watcher = sandbox.files.watch_dir(path, **options)

    def events():
        seen.extend(watcher.get_new_events())
        return seen

    return watcher, events


def reported(events, name, kind):
    return [event for event in events() if event.name == name and event.type == kind]


@case()
async def a_new_file_is_reported(world, sandbox):
    await do(sandbox.files.make_dir("watched"))
    watcher, events = await watch(world, sandbox, "watched")
    await do(sandbox.files.write("watched/new.txt", "x"))
    await until(lambda: reported(events, "new.txt", e2b.FilesystemEventType.CREATE), "the file is reported")
    await do(watcher.stop())


@case()
async def a_write_and_a_removal_are_reported(world, sandbox):
    await do(sandbox.commands.run("mkdir watched && touch watched/file"))
    watcher, events = await watch(world, sandbox, "watched")
    await do(sandbox.commands.run("echo x > watched/file"))
    await until(lambda: reported(events, "file", e2b.FilesystemEventType.WRITE), "the write is reported")
    await do(sandbox.commands.run("rm watched/file"))
    await until(lambda: reported(events, "file", e2b.FilesystemEventType.REMOVE), "the removal is reported")
    await do(watcher.stop())


@case()
async def recursive_watch_reports_nested_changes(world, sandbox):
    await do(sandbox.files.make_dir("watched/inner"))
    watcher, events = await watch(world, sandbox, "watched", recursive=True)
    await do(sandbox.files.write("watched/inner/deep.txt", "x"))
    await until(lambda: reported(events, "inner/deep.txt", e2b.FilesystemEventType.CREATE), "the file is reported")
    await do(watcher.stop())


@case()
async def watching_a_missing_directory_is_not_found(world, sandbox):
    async def begin():
        return await watch(world, sandbox, "nowhere")

    await fails(e2b.NotFoundException, begin)
