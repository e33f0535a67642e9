"""Code in a stateful kernel, with `e2b-code-interpreter`."""

from cases import case
from sdk import CHARTS, INTERPRETER, do, fails

try:
    import e2b_code_interpreter as kernels
except ImportError:  # The Rust runner checks that it is installed.
    kernels = None


async def interpreter(world):
    kind = kernels.AsyncSandbox if world.is_async else kernels.Sandbox
    return world.keep(await do(kind.create(timeout=120)))


@case(needs_sandbox=False, needs=INTERPRETER)
async def the_last_value_is_the_result(world):
    execution = await do((await interpreter(world)).run_code("x = 20\nx + 22"))
    assert execution.text == "42" and execution.error is None


@case(needs_sandbox=False, needs=INTERPRETER)
async def variables_are_kept_between_calls(world):
    sandbox = await interpreter(world)
    await do(sandbox.run_code("items = [1, 2]"))
    await do(sandbox.run_code("items.append(3)"))
    assert (await do(sandbox.run_code("items"))).text == "[1, 2, 3]"


@case(needs_sandbox=False, needs=INTERPRETER)
async def printed_output_is_in_the_logs(world):
    execution = await do((await interpreter(world)).run_code("import sys\nprint('out')\nprint('err', file=sys.stderr)"))
    assert "".join(execution.logs.stdout) == "out\n" and "".join(execution.logs.stderr) == "err\n"


@case(needs_sandbox=False, needs=INTERPRETER)
async def output_arrives_while_code_runs(world):
    received = []
    await do((await interpreter(world)).run_code("for n in range(3): print(n, flush=True)", on_stdout=lambda m: received.append(m.line)))
    assert "".join(received) == "0\n1\n2\n", received


@case(needs_sandbox=False, needs=INTERPRETER)
async def an_error_has_name_value_and_traceback(world):
    execution = await do((await interpreter(world)).run_code("1 / 0"))
    assert execution.error.name == "ZeroDivisionError" and "division by zero" in execution.error.value
    assert "ZeroDivisionError" in execution.error.traceback


@case(needs_sandbox=False, needs=INTERPRETER)
async def code_after_an_error_runs(world):
    sandbox = await interpreter(world)
    await do(sandbox.run_code("kept = 1"))
    await do(sandbox.run_code("raise ValueError('x')"))
    assert (await do(sandbox.run_code("kept"))).text == "1"


@case(needs_sandbox=False, needs=INTERPRETER)
async def contexts_do_not_share_variables(world):
    sandbox = await interpreter(world)
    context = await do(sandbox.create_code_context())
    await do(sandbox.run_code("x = 1", context=context))
    assert (await do(sandbox.run_code("x", context=context))).text == "1"
    assert (await do(sandbox.run_code("x"))).error.name == "NameError"


@case(needs_sandbox=False, needs=INTERPRETER)
async def javascript_variables_are_kept_between_calls(world):
    sandbox = await interpreter(world)
    await do(sandbox.run_code("const a = 40", language="javascript"))
    assert (await do(sandbox.run_code("a + 2", language="javascript"))).text == "42"


@case(needs_sandbox=False, needs=INTERPRETER)
async def code_has_environment_variables_of_the_call(world):
    sandbox = await interpreter(world)
    execution = await do(sandbox.run_code("import os; os.getenv('FOO')", envs={"FOO": "bar"}))
    assert execution.text.strip("'") == "bar"


@case(needs_sandbox=False, needs=INTERPRETER)
async def code_that_takes_too_long_times_out(world):
    import e2b

    sandbox = await interpreter(world)
    await fails(e2b.TimeoutException, lambda: sandbox.run_code("import time; time.sleep(30)", timeout=1))


@case(needs_sandbox=False, needs=INTERPRETER)
async def an_error_without_source_is_reported(world):
    code = "exec(compile('\\n' * 9 + 'raise KeyError(1)', 'made.pyx', 'exec'))"
    execution = await do((await interpreter(world)).run_code(code))
    assert execution.error.name == "KeyError" and "made.pyx:10" in execution.error.traceback


@case(needs_sandbox=False, needs=INTERPRETER)
async def r_keeps_variables_prints_plots_and_raises(world):
    sandbox = await interpreter(world)
    execution = await do(sandbox.run_code('print("Hello, World!")', language="r"))
    assert execution.logs.stdout == ['[1] "Hello, World!"\n'], execution
    await do(sandbox.run_code("x <- 20", language="r"))
    assert (await do(sandbox.run_code("x + 22", language="r"))).text == "[1] 42"
    execution = await do(sandbox.run_code('Sys.getenv("FOO")', language="r", envs={"FOO": "bar"}))
    assert execution.results[0].text.strip() == '[1] "bar"', execution
    assert (await do(sandbox.run_code("stop('broken')", language="r"))).error.value == "broken"
    execution = await do(sandbox.run_code("plot(1:3)", language="r"))
    assert execution.results[0].png.startswith("iVBOR"), execution


@case(needs_sandbox=False, needs=INTERPRETER)
async def java_keeps_variables_prints_and_raises(world):
    sandbox = await interpreter(world)
    execution = await do(sandbox.run_code('System.out.println("Hello, World!")', language="java"))
    assert execution.logs.stdout[0] == "Hello, World!", execution
    await do(sandbox.run_code("int x = 20;", language="java"))
    assert (await do(sandbox.run_code("x + 22", language="java"))).text == "42"
    execution = await do(sandbox.run_code('System.getProperty("FOO")', language="java", envs={"FOO": "bar"}))
    assert execution.text == "bar", execution
    execution = await do(sandbox.run_code("int y = 1 / 0;", language="java"))
    assert execution.error.name == "java.lang.ArithmeticException", execution


@case(needs_sandbox=False, needs=INTERPRETER)
async def a_killed_interpreter_is_restarted(world):
    sandbox = await interpreter(world)
    await do(sandbox.run_code("x = 1"))
    # The kernel is a child of the server; the answer breaks off.
    try:
        await do(sandbox.run_code("import os; os.kill(os.getppid(), 9)"))
    except Exception:
        pass
    await do(sandbox.commands.run("until (exec 3<> /dev/tcp/127.0.0.1/49999) 2> /dev/null; do sleep 0.1; done"))
    assert (await do(sandbox.run_code("x"))).error.name == "NameError"


@case(needs_sandbox=False, needs=CHARTS)
async def a_chart_is_a_png_result(world):
    sandbox = await interpreter(world)
    execution = await do(sandbox.run_code("import matplotlib.pyplot as p\np.plot([1, 2])\np.show()"))
    assert execution.results[0].png.startswith("iVBOR")
