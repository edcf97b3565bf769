"""A cleaning in a process of its own: started, waited for, and ended when it is not wanted any more."""

import asyncio
from asyncio.subprocess import PIPE
from collections.abc import Callable

from minibroker_storage.cleaner import CleaningAbortedError, CleaningPlan, CleaningResult
from minibroker_storage.cleaner.process import encode_plan, read_outcome, worker_command, worker_environment

Done = Callable[[CleaningResult | BaseException], None]


def start_cleaning(plan: CleaningPlan, done: Done) -> "asyncio.Task[CleaningResult]":
    """Have `plan` carried out, then call `done` with the result or with what went wrong.

    When the task is cancelled, the process is ended, and `done` gets a CleaningAbortedError once it has.
    """

    def end(task: "asyncio.Task[CleaningResult]") -> None:
        if task.cancelled():
            done(CleaningAbortedError(f"{plan.directory}: the cleaning is not wanted any more"))
        else:
            done(task.exception() or task.result())

    task = asyncio.get_running_loop().create_task(_clean(plan))
    task.add_done_callback(end)
    return task


async def _clean(plan: CleaningPlan) -> CleaningResult:
    process = await asyncio.create_subprocess_exec(
        *worker_command(), stdin=PIPE, stdout=PIPE, stderr=PIPE, env=worker_environment()
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        # Its standard input stays open until it has answered: should this process die, it ends with it.
        process.stdin.write(encode_plan(plan))
        output, errors = await asyncio.gather(process.stdout.read(), process.stderr.read())
        process.stdin.close()
        return read_outcome(output, await process.wait(), errors)
    except asyncio.CancelledError:
        process.stdin.close()  # it ends at once; a signal might come to a process that has just ended
        await process.wait()
        raise
