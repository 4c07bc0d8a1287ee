"""Where log lines go and what they look like: standard error, one line each, in UTC."""

import logging
import logging.config
import time


def configure(level: str) -> None:
    logging.Formatter.converter = time.gmtime
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {
                "line": {"format": "%(asctime)sZ %(levelname)s %(name)s: %(message)s", "datefmt": "%Y-%m-%dT%H:%M:%S"}
            },
            "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
            "root": {"handlers": ["stderr"], "level": level.upper()},
        }
    )
