"""Scripts about dead-letter queues (KIP-1191): see `share_group_scripts`."""

from typing import Final

from tests.kafka.dead_letter_world import DeadLetterWorld
from tests.kafka.scripts import Scripts
from tests.kafka.share_group_scripts import ACCEPT, REJECT, RELEASE, begin

DEAD_LETTER_SCRIPTS: Final = Scripts[DeadLetterWorld]()
_LONG_MS: Final = "600000"


@DEAD_LETTER_SCRIPTS.add
def what_nobody_can_process_goes_to_the_queue(world: DeadLetterWorld) -> None:
    place, queue = ("t", 1), world.queue("q")
    begin(world, "a")
    world.configure(errors_deadletterqueue_topic_name="__internal")
    world.configure(errors_deadletterqueue_topic_name=queue, share_delivery_count_limit="2")
    world.produce(place, b"1", b"2", b"3")
    world.fetch("a", place)
    world.acknowledge("a", {place: [(1, 3, [REJECT, ACCEPT, RELEASE])]})
    world.dead_letters(queue, 1)
    world.fetch("a", place, wait=True)
    world.acknowledge("a", {place: [(3, 3, [RELEASE])]})
    world.dead_letters(queue, 2)
    world.until_done(place)
    world.configure(errors_deadletterqueue_copy_record_enable="true")
    world.produce(place, b"4", b"5")
    world.fetch("a", place, wait=True)
    world.acknowledge("a", {place: [(4, 5, [REJECT])]})
    world.dead_letters(queue, 4)
    world.until_done(place)
    world.configure(errors_deadletterqueue_topic_name="")
    world.produce(place, b"6")
    world.fetch("a", place, wait=True)
    world.acknowledge("a", {place: [(6, 6, [REJECT])]})
    world.until_done(place)
    world.dead_letters(queue, 4)


@DEAD_LETTER_SCRIPTS.add
def what_nobody_acknowledges_goes_to_the_queue(world: DeadLetterWorld) -> None:
    place, queue = ("t", 1), world.queue("q")
    begin(world, "a", "b")
    world.create_queue(queue, 3, errors_deadletterqueue_group_enable="true", max_message_bytes="700")
    world.configure(
        errors_deadletterqueue_topic_name=queue, errors_deadletterqueue_copy_record_enable="true",
        share_delivery_count_limit="2", share_record_lock_duration_ms="1000",
    )  # fmt: skip
    world.produce(place, *(b"%d" % number * 200 for number in range(3)), b"x" * 1000)
    world.fetch("a", place, wait=True)
    # The locks of the batches end one by one, and a fetch may come in between.
    world.fetch_until("b", place, [1, 2, 3, 4], {})
    world.dead_letters(queue, 4, 1)
    world.until_done(place)
    world.configure(share_record_lock_duration_ms=_LONG_MS, errors_deadletterqueue_copy_record_enable="false")
    world.produce(place, b"left behind")
    world.fetch("a", place, wait=True)
    world.fetch("a", epoch=-1)
    world.fetch_until("b", place, [5], {})  # Kafka does not wake one that waits already
    world.fetch("b", epoch=-1)
    world.dead_letters(queue, 5, 1)
    world.until_done(place)


@DEAD_LETTER_SCRIPTS.add
def a_queue_that_cannot_be_is_no_reason_to_wait(world: DeadLetterWorld) -> None:
    place = ("u", 0)
    begin(world, "a")
    closed = world.queue("closed")
    world.create_queue(closed)
    for offset, name in enumerate((world.topic("no-prefix"), closed, world.queue("no such name!")), start=1):
        world.configure(errors_deadletterqueue_topic_name=name)
        world.produce(place, b"%d" % offset)
        world.fetch("a", place, wait=True)
        world.acknowledge("a", {place: [(offset, offset, [REJECT])]})
        world.until_done(place)
    world.dead_letters(closed, 0)
