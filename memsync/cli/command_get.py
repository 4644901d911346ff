"""`memsync get`: the operation, also for citations of registered memories."""

from memsync.cli.build import command_of
from memsync.cli.covered import in_location
from memsync.features.search import get as operation

get = command_of(operation, operation.commands[0], in_location)
