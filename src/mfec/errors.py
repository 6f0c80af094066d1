"""Errors for the person at the keyboard."""


class MfecError(Exception):
    """Base of all errors of this package that a user can do something about."""
