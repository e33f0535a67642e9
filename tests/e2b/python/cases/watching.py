"""Being told what changes."""

import e2b
from cases import case
from sdk import do, fails, until


async def watch(world, sandbox, path, **options):
    """The watcher, and a function that gives the events so far."""
    seen = []
    if world.is_async:
        return await sandbox.files.watch_dir(path, on_event=seen.append, **options), lambda: seen
    watcher = sandbox.files.watch_dir(path, **options)

    def events():
        seen.extend(watcher.get_new_events())
        return seen

    return watcher, events


def told(events, name, kind):
    return [event for event in events() if event.name == name and event.type == kind]


@case()
async def a_new_file_is_told(world, sandbox):
    await do(sandbox.files.make_dir("watched"))
    watcher, events = await watch(world, sandbox, "watched")
    await do(sandbox.files.write("watched/new.txt", "x"))
    await until(lambda: told(events, "new.txt", e2b.FilesystemEventType.CREATE), "the file is told")
    await do(watcher.stop())


@case()
async def a_write_and_a_removal_are_told(world, sandbox):
    await do(sandbox.commands.run("mkdir watched && touch watched/file"))
    watcher, events = await watch(world, sandbox, "watched")
    await do(sandbox.commands.run("echo x > watched/file"))
    await until(lambda: told(events, "file", e2b.FilesystemEventType.WRITE), "the write is told")
    await do(sandbox.commands.run("rm watched/file"))
    await until(lambda: told(events, "file", e2b.FilesystemEventType.REMOVE), "the removal is told")
    await do(watcher.stop())


@case()
async def what_happens_below_is_told_when_asked_for(world, sandbox):
    await do(sandbox.files.make_dir("watched/inner"))
    watcher, events = await watch(world, sandbox, "watched", recursive=True)
    await do(sandbox.files.write("watched/inner/deep.txt", "x"))
    await until(lambda: told(events, "inner/deep.txt", e2b.FilesystemEventType.CREATE), "the file is told")
    await do(watcher.stop())


@case()
async def watching_nothing_is_not_found(world, sandbox):
    async def begin():
        return await watch(world, sandbox, "nowhere")

    await fails(e2b.NotFoundException, begin)
