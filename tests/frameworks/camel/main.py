"""camel-ai: its E2B interpreter, and an agent that runs code in it."""

import json
import os

# Otherwise it needs more packages at start.
os.environ["CAMEL_LOGGING_DISABLED"] = "true"

from camel.agents import ChatAgent
from camel.interpreters import E2BInterpreter, InterpreterError
from camel.models.stub_model import StubModel
from camel.toolkits import CodeExecutionToolkit
from camel.types import ModelType
from checks import check, check_contains, check_equal


class ScriptedModel(StubModel):
    """Calls the tool once, then answers with its result."""

    def _run(self, messages, response_format=None, tools=None):
        response = super()._run(messages, response_format, tools)
        choice = response.choices[0]
        if messages[-1]["role"] == "tool":
            choice.message.content = f"result: {messages[-1]['content']}"
            return response
        function = {"name": "execute_code", "arguments": json.dumps({"code": "print(6 * 7)", "code_type": "python"})}
        call = {"id": "call-0", "type": "function", "function": function}
        # Validated as an answer of a server would be.
        message = type(choice.message).model_validate({"role": "assistant", "content": None, "tool_calls": [call]})
        choice.message, choice.finish_reason = message, "tool_calls"
        return response


def interpreter():
    interpreter = E2BInterpreter(require_confirm=False)
    check_contains("the value of the last expression comes back", interpreter.run("x = 40\nx + 2", "python"), "42")
    check_contains("variables stay", interpreter.run("print('x is', x)", "py"), "x is 40")
    check_contains("an error comes back", interpreter.run("{}['missing']", "python"), "KeyError", "missing")
    check_contains("code in bash runs", interpreter.run("echo from $((1 + 1)) && whoami", "bash"), "from 2")
    check_contains("code in JavaScript runs", interpreter.run("console.log([1, 2].map(n => n * 2))", "javascript"), "2, 4")
    check_contains("standard error comes back", interpreter.run("import sys\nprint('oh', file=sys.stderr)"), "[stderr] oh")
    ran = interpreter.execute_command("echo hello")
    check_equal("commands run", (ran.stdout, ran.exit_code), ("hello\n", 0))
    try:
        interpreter.run("x", "cobol")
        check("other languages are refused", False)
    except InterpreterError:
        check("other languages are refused", True)
    sandbox = interpreter._sandbox
    interpreter.__del__()
    check("the sandbox is gone after the interpreter", not sandbox.is_running())
    interpreter._sandbox = None


def agent():
    toolkit = CodeExecutionToolkit(sandbox="e2b")
    agent = ChatAgent("You run code.", model=ScriptedModel(ModelType.STUB), tools=[toolkit.execute_code])
    answer = agent.step("What is 6 * 7?")
    check_contains("an agent runs code in a sandbox and receives the result", answer.msgs[0].content, "result:", "42")


interpreter()
agent()
