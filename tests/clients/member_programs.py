"""Every program that can be a member of a group, by its name; the tests run in this order."""

from typing import Final

from tests.clients import go_programs, java_programs, node_programs, python_programs
from tests.clients.group_members import MemberProgram

# A module for each family of clients; its `programs()` only describes them and builds nothing.
MEMBER_PROGRAMS: Final[dict[str, MemberProgram]] = {
    program.name: program
    for module in (python_programs, java_programs, node_programs, go_programs)
    for program in module.programs()
}
