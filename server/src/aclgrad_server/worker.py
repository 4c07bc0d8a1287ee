"""One worker of a host: a server whose supervisor tells it its settings and its place."""

import os
import sys
from contextlib import suppress

from aclgrad_server import logs
from aclgrad_server.devices.numa import bind_to_card
from aclgrad_server.devices.visible import visible_card
from aclgrad_server.exits import EXIT_START, StartError
from aclgrad_server.place import read_orders
from aclgrad_server.serving import serve


def main() -> None:
    """Serves as the orders on standard input say, and ends the process."""
    orders = read_orders()
    settings, place = orders.settings, orders.place
    form = logs.form_of(settings.log_format, place.index)
    logs.configure(settings.log_level, form)
    with suppress(ValueError):  # the server says why there is no such card
        bind_to_card(visible_card(os.environ, settings.device[0]))
    try:
        code = serve(settings, place)
    except StartError as error:
        logs.last_words(form, str(error))
        code = EXIT_START
    sys.exit(code)
