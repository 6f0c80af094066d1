"""How a command line is read: options from dataclasses, whole numbers as people write them, help that reads well."""

from __future__ import annotations

import difflib
import re
import shutil
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass, make_dataclass, replace
from decimal import Decimal
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import tyro
from tyro.conf import OmitSubcommandPrefixes, arg, subcommand
from tyro.constructors import (
    ConstructorRegistry,
    PrimitiveConstructorSpec,
    PrimitiveTypeInfo,
    StructConstructorSpec,
    StructTypeInfo,
)

from mfec.errors import MfecError

T = TypeVar("T")

WHOLE = re.compile(r"[+-]?\d+(_\d+)*(\.\d*)?([eE]\+?\d{1,2})?")
UNSAID = {"", "''", "None"}  # defaults that say nothing: the help of an option tells what happens without it
WIDTH = 100  # of the text above the options, at most


class UnknownCommand(MfecError, ValueError):
    """A word where a command should be."""


@dataclass(frozen=True)
class Commands:
    """Commands by name, each a dataclass of its options, or again some commands."""

    about: str
    commands: dict[str, type[Any] | Commands]


def read_command(commands: Commands, given: Sequence[str]) -> Any:
    """The command that is given, with its options; where none is, help is shown and Python exits."""
    found: type[Any] | Commands = commands
    words: list[str] = []
    while isinstance(found, Commands):
        prog = " ".join(["mfec", *words])
        word = given[len(words)] if len(given) > len(words) else "--help"
        if word.startswith("-"):
            everything = given[len(words) :] or [word]
            about = _wrapped(found.about)
            tyro.cli(_choice(found), prog=prog, description=about, args=everything, config=(OmitSubcommandPrefixes,))
        if word not in found.commands:
            near = difflib.get_close_matches(word, found.commands, n=1, cutoff=0.5)
            hint = f" did you mean {near[0]!r}?" if near else ""
            raise UnknownCommand(f"unknown command {word!r};{hint} there are {', '.join(found.commands)}")
        words.append(word)
        found = found.commands[word]
    return read(found, given[len(words) :], prog=" ".join(["mfec", *words]))


def read(cls: type[T], arguments: Sequence[str], *, prog: str, default: T | None = None) -> T:
    """The options of a dataclass, from the arguments of a command line.

    default: values of what is not given, where they are not those of the class.
    """
    own: dict[str, Any] = {} if default is None else {"default": default}
    about = _wrapped(cls.__doc__ or "")
    command: T = tyro.cli(cls, prog=prog, description=about, args=arguments, registry=_registry(), **own)
    return command


def value_of(arguments: Sequence[str], option: str) -> str | None:
    """The value of an option before a command line is read; the last one, if there are several."""
    value: str | None = None
    for word, after in zip(arguments, [*arguments[1:], None], strict=True):
        name, given, own = word.partition("=")
        if name == option:
            value = own if given else after
    return value


def whole_number(text: str) -> int:
    """A whole number as people write it.

    >>> whole_number("1e6"), whole_number("1_000_000"), whole_number("2.5e3"), whole_number("-1")
    (1000000, 1000000, 2500, -1)
    """
    number = Decimal(text) if WHOLE.fullmatch(text.strip()) else Decimal("nan")
    if number != number.to_integral_value():  # which a NaN is not, either
        raise ValueError(f"{text!r} is not a whole number; one is written 1000000, 1_000_000 or 1e6")
    return int(number)


def one_paragraph(text: str) -> str:
    """A text without the line breaks that it has in its source; those between paragraphs become spaces, too.

    >>> one_paragraph('''One sentence that
    ...     goes on.''')
    'One sentence that goes on.'
    """
    return " ".join(text.split())


def first_sentence(text: str) -> str:
    """What a list of commands has room for."""
    return re.split(r"(?<=\.) |; |: ", one_paragraph(text))[0].rstrip(".") + "."


def _wrapped(text: str) -> str:
    """The text above the options, as wide as the terminal."""
    # tyro joins lines that begin with a letter, and wraps none of them: hence the space at their beginning.
    width = min(shutil.get_terminal_size().columns, WIDTH)
    return textwrap.fill(one_paragraph(text), width, initial_indent=" ", subsequent_indent=" ")


def _registry() -> ConstructorRegistry:
    """Rules of our own beside tyro's."""
    registry = ConstructorRegistry()
    inside: list[Any] = []  # dataclasses whose fields tyro itself is looking up

    @registry.primitive_rule
    def whole_numbers(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[int] | None:
        if info.type is not int:
            return None
        return PrimitiveConstructorSpec(
            nargs=1,
            metavar="INT",
            instance_from_str=lambda given: whole_number(given[0]),
            is_instance=lambda value: isinstance(value, int) and not isinstance(value, bool),
            str_from_instance=lambda value: [f"{value:_}" if abs(value) >= 10_000 else str(value)],
        )

    @registry.primitive_rule
    def perhaps(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
        """What may be left out, as what it is where it is given: else an error would speak of None."""
        kinds = [kind for kind in get_args(info.type) if kind is not NoneType]
        if info.type_origin not in (Union, UnionType) or len(kinds) != 1 or len(get_args(info.type)) != 2:
            return None
        own = ConstructorRegistry.get_primitive_spec(PrimitiveTypeInfo.make(kinds[0], info.markers))
        if not isinstance(own, PrimitiveConstructorSpec):
            return None
        return replace(
            own,
            instance_from_str=lambda given: None if given == ["None"] else own.instance_from_str(given),
            is_instance=lambda value: value is None or own.is_instance(value),
            str_from_instance=lambda value: ["None"] if value is None else own.str_from_instance(value),
        )

    @registry.primitive_rule
    def several_whole_numbers(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[tuple[int, ...]] | None:
        if info.type != tuple[int, ...]:
            return None
        return PrimitiveConstructorSpec(
            nargs="*",
            metavar="INT [INT ...]",
            instance_from_str=lambda given: tuple(map(whole_number, given)),
            is_instance=lambda value: isinstance(value, tuple) and all(type(number) is int for number in value),
            str_from_instance=lambda value: [str(number) for number in value],
        )

    @registry.struct_rule
    def sentences(info: StructTypeInfo) -> StructConstructorSpec | None:
        """Fields with help in one piece, and with defaults for people."""
        if info.type in inside or not is_dataclass(info.type):
            return None
        inside.append(info.type)
        try:
            spec = ConstructorRegistry.get_struct_spec(info)
        finally:
            inside.pop()
        if not isinstance(spec, StructConstructorSpec):
            return None
        fields = []
        for field in spec.fields:
            hinted: Any = Annotated[field.type, arg(help_behavior_hint=_default_said)]
            said = _said(field.helptext, field.type)
            fields.append(replace(field, type=hinted, helptext=said))
        return replace(spec, fields=tuple(fields))

    return registry


def _said(help_: str | Callable[[], str | None] | None, kind: Any) -> Callable[[], str]:
    """The help of a field; of settings that stand in a group of their own, what their class says."""

    def say() -> str:
        text = help_() if callable(help_) else help_
        own = get_args(kind)[0] if get_origin(kind) is Annotated else kind
        if text is None and is_dataclass(own):
            text = own.__doc__
        return one_paragraph(text or "")

    return say


def _default_said(default: str) -> str:
    """The default after the help of an option, where it says something."""
    words = {"True": "yes", "False": "no"}
    return "" if default in UNSAID else f"(default: {words.get(default, default)})"


def _choice(commands: Commands) -> type[Any]:
    """A choice among commands as one dataclass, for the help of all of them and for the completion of shells."""
    kinds: list[Any] = []
    for name, own in commands.commands.items():
        about = own.about if isinstance(own, Commands) else own.__doc__ or ""
        kind: Any = _choice(own) if isinstance(own, Commands) else own
        kinds.append(Annotated[kind, subcommand(name, description=first_sentence(about))])
    union: Any = Union[tuple(kinds)]  # noqa: UP007
    return make_dataclass("Choice", [("command", Annotated[union, arg(name="")])], frozen=True)
