"""The lessons: their texts, their goals, and the goals reached."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request

from minibroker.cluster.errors import NotFoundError
from minibroker_control.remote import OnBroker
from minibroker_lab.page.lessons.evidence import ActivityMark, Facts, LogMark, collect_facts, recorded_activity
from minibroker_lab.page.lessons.lesson import Lesson, Progress
from minibroker_lab.page.lessons.texts import LESSONS, text_of
from minibroker_lab.page.recorder import Recorder
from minibroker_lab.page.routes import OnRecorder
from minibroker_lab.page.schemas import PageSchemas

router = APIRouter(prefix="/lessons")

Number = Annotated[int, Path(ge=1)]


Answers = Annotated[bool, Query(description="With the answer for teachers.")]


@router.get("")
async def list_lessons(request: Request, on_broker: OnBroker, recorder: OnRecorder) -> dict[str, Any]:
    """Return all lessons, each with its number of goals and of reached goals."""
    progress = await _get_progress(request, on_broker)
    await _update(progress, LESSONS, on_broker, recorder, request.app.state.schemas)
    return {
        "lessons": [
            {
                "number": lesson.number,
                "title": lesson.title,
                "goals": len(lesson.goals),
                "reached": len(progress.of(lesson)),
            }
            for lesson in LESSONS
        ]
    }


@router.get("/{number}")
async def text(number: Number, *, answers: Answers = False) -> dict[str, Any]:
    """Return the text of a lesson as elements, and its goals."""
    lesson = _find_lesson(number)
    content = text_of(lesson)
    return {
        "number": lesson.number,
        "title": lesson.title,
        "is_last": lesson is LESSONS[-1],
        "before": content.before,
        "behind": content.behind,
        "clients": content.clients,
        "answers": content.answers if answers else None,
        "goals": [{"name": goal.name, "task": goal.task, "hint": goal.hint} for goal in lesson.goals],
    }


@router.get("/{number}/reached")
async def reached(request: Request, number: Number, on_broker: OnBroker, recorder: OnRecorder) -> dict[str, Any]:
    """Check the goals of a lesson against the broker's state.

    Return the evidence for each goal that is reached, and the current state for each other goal.
    """
    lesson = _find_lesson(number)
    progress = await _get_progress(request, on_broker)
    await _update(progress, [lesson], on_broker, recorder, request.app.state.schemas)
    return {"reached": progress.of(lesson), "so_far": progress.so_far(lesson)}


@router.delete("/{number}/reached", status_code=204)
async def begin_again(request: Request, number: Number, on_broker: OnBroker, recorder: OnRecorder) -> None:
    """Reset the goals of a lesson. From now on, only later requests, events and records count."""
    lesson, progress = _find_lesson(number), await _get_progress(request, on_broker)
    facts = await _read_facts(on_broker, {})
    recorder.catch_up()
    progress.begin_again(lesson, ActivityMark(recorder.last, recorder.events.last), facts)


async def _update(
    progress: Progress, lessons: Iterable[Lesson], on_broker: OnBroker, recorder: Recorder, schemas: PageSchemas
) -> None:
    """Check the open goals. Lessons with the same marks share their facts."""
    lessons_with_facts: list[tuple[Lesson, Mapping[str, LogMark], Facts]] = []
    for lesson in filter(lambda lesson: not progress.is_complete(lesson), lessons):
        marks = progress.marks_of(lesson)
        facts = next((facts for _, other_marks, facts in lessons_with_facts if other_marks == marks), None)
        lessons_with_facts.append((lesson, marks, await _read_facts(on_broker, marks) if facts is None else facts))
    if lessons_with_facts:
        await schemas.update()
        recorder.catch_up()
        seen = recorded_activity(recorder, schemas)
        for lesson, _, facts in lessons_with_facts:
            progress.update(lesson, seen, facts)


async def _read_facts(on_broker: OnBroker, marks: Mapping[str, LogMark]) -> Facts:
    return await on_broker(lambda broker: collect_facts(broker, marks))


def _find_lesson(number: int) -> Lesson:
    if number > len(LESSONS):
        raise NotFoundError(f"lesson {number}: there are {len(LESSONS)}")
    return LESSONS[number - 1]


async def _get_progress(request: Request, on_broker: OnBroker) -> Progress:
    state = request.app.state
    if not hasattr(state, "progress"):
        state.progress = Progress(await on_broker.get(lambda broker: broker.services.core.topics.data_dir))
    progress: Progress = state.progress
    return progress
