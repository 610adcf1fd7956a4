"""The end of a child process that cannot go on: why is in its log, and its exit code says whether memory ran out."""

import os
import sys
import traceback
from typing import NoReturn

from swarmd.errors import OutOfMemory

RUINED_EXIT_CODE = 70


def end_process(error: BaseException) -> NoReturn:
    """Write why to the log, whose last lines the supervisor reports, and end at once."""
    traceback.print_exc()
    print(error, file=sys.stderr, flush=True)
    os._exit(OutOfMemory.exit_code if isinstance(error, OutOfMemory) else RUINED_EXIT_CODE)
