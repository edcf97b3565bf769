"""The lessons: their texts, their goals, and which of them are reached."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request

from minibroker.control.remote import OnBroker
from minibroker.errors import NotFoundError
from minibroker.operations.asynchronous import AsyncOperations
from minibroker.page.lessons.catalogue import LESSONS
from minibroker.page.lessons.lesson import Lesson
from minibroker.page.lessons.look import Facts, Look, facts_of
from minibroker.page.lessons.progress import Progress
from minibroker.page.lessons.texts import text_of
from minibroker.page.recorder import Recorder

router = APIRouter(prefix="/lessons")

Number = Annotated[int, Path(ge=1)]
Answers = Annotated[bool, Query(description="With the answer for teachers.")]


@router.get("")
async def list_lessons(request: Request, on_broker: OnBroker) -> dict[str, Any]:
    """All lessons, with the number of their goals and of those that are reached."""
    progress = await _progress(request, on_broker)
    return {
        "lessons": [
            {
                "number": each.number,
                "title": each.title,
                "goals": len(each.goals),
                "reached": len(progress.of(each)),
            }
            for each in LESSONS
        ]
    }


@router.get("/{number}")
async def text(number: Number, *, answers: Answers = False) -> dict[str, Any]:
    """The text of a lesson as elements, and its goals."""
    lesson = _lesson(number)
    found = text_of(lesson)
    return {
        "number": lesson.number,
        "title": lesson.title,
        "before": found.before,
        "behind": found.behind,
        "clients": found.clients,
        "answers": found.answers if answers else None,
        "goals": [{"name": goal.name, "task": goal.task, "hint": goal.hint} for goal in lesson.goals],
    }


@router.get("/{number}/reached")
async def reached(request: Request, number: Number, on_broker: OnBroker) -> dict[str, Any]:
    """Look at the broker, and name the goals that are reached, each with a sentence on what shows it."""
    lesson = _lesson(number)
    progress = await _progress(request, on_broker)
    recorder: Recorder = request.app.state.recorder
    if len(progress.of(lesson)) < len(lesson.goals):

        async def work(broker: AsyncOperations) -> Facts:
            return await facts_of(broker)

        facts = await on_broker(work)
        recorder.catch_up()
        progress.update(lesson, Look(recorder, facts, recorder.events.all()))
    return {"reached": progress.of(lesson)}


@router.delete("/{number}/reached", status_code=204)
async def begin_again(request: Request, number: Number, on_broker: OnBroker) -> None:
    """Forget the goals of a lesson. Requests that are still in the list count again."""
    (await _progress(request, on_broker)).forget(_lesson(number))


def _lesson(number: int) -> Lesson:
    if number > len(LESSONS):
        raise NotFoundError(f"lesson {number}: there are {len(LESSONS)}")
    return LESSONS[number - 1]


async def _progress(request: Request, on_broker: OnBroker) -> Progress:
    state = request.app.state
    if not hasattr(state, "progress"):

        async def work(broker: AsyncOperations) -> str:
            return broker.services.core.topics.data_dir

        state.progress = Progress(await on_broker(work))
    progress: Progress = state.progress
    return progress
