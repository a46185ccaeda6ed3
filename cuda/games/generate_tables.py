# SPDX-License-Identifier: Apache-2.0
"""Compiles games.toml and palettes.toml into the constant tables of the library (games/tables.h).

Usage: generate_tables.py OUTPUT_FILE. Runs at build time with the standard library only. Rules are written in a small
subset of Python's syntax, parsed by `ast` and translated to the byte code of rules.h. Whatever is not in that subset
or not in the list of keys ends the build with the line of games.toml that is wrong.
"""

from __future__ import annotations

import ast
import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
GAMES_FILE = HERE / "games.toml"
PALETTES_FILE = HERE / "palettes.toml"

ACTIONS = [
    "NOOP", "FIRE", "UP", "RIGHT", "LEFT", "DOWN", "UPRIGHT", "UPLEFT", "DOWNRIGHT", "DOWNLEFT", "UPFIRE", "RIGHTFIRE",
    "LEFTFIRE", "DOWNFIRE", "UPRIGHTFIRE", "UPLEFTFIRE", "DOWNRIGHTFIRE", "DOWNLEFTFIRE",
]  # fmt: skip
CONSOLE_RESET = 40
CARTRIDGES = {
    "2K": (2048,),
    "4K": (4096,),
    "F8": (8192,),
    "F8SC": (8192,),
    "FE": (8192,),
    "E0": (8192,),
    "F6": (16384,),
    "F6SC": (16384,),
    "DPC": range(10240, 10497),
}
REQUIRED_KEYS = {"rom", "cartridge", "minimal_actions", "modes", "difficulties", "variables", "step", "lives"}
OPTIONAL_KEYS = {
    "display", "probe_difficulty", "controller", "legal_actions", "starting_actions", "persistent", "tables",
    "game_over", "set_mode", "after_load", "notes",
}  # fmt: skip

RULE_KINDS = {"step": "step", "lives": "expression", "game_over": "expression", "set_mode": "program"}

BINARY_OPERATORS = {
    ast.Add: "kAdd", ast.Sub: "kSubtract", ast.Mult: "kMultiply", ast.FloorDiv: "kDivide", ast.Mod: "kModulo",
    ast.BitAnd: "kBitAnd", ast.LShift: "kShiftLeft", ast.RShift: "kShiftRight",
}  # fmt: skip
COMPARISONS = {
    ast.Eq: "kEqual", ast.NotEq: "kNotEqual", ast.Lt: "kLess", ast.LtE: "kLessEqual", ast.Gt: "kGreater",
    ast.GtE: "kGreaterEqual",
}  # fmt: skip
UNARY_FUNCTIONS = {"u8": "kUnsigned8", "s8": "kSigned8", "dec": "kDecimal", "popcount": "kPopcount"}
BINARY_FUNCTIONS = {"min": "kMin", "max": "kMax", "wrap": "kWrap", "blank": "kBlank"}


class RuleError(Exception):
    """A rule that cannot be compiled; `line` counts from 1 inside the text of its key."""

    def __init__(self, message: str, line: int = 1) -> None:
        super().__init__(message)
        self.line = line


def read_constants(name: str) -> int:
    """Returns a `constexpr int` of rules.h."""
    match = re.search(rf"constexpr int {name} = (\d+);", (HERE / "rules.h").read_text())
    assert match, name
    return int(match.group(1))


def read_operations() -> dict[str, int]:
    """Returns the numbers of RuleOp's enumerators in rules.h."""
    body = re.search(r"enum class RuleOp : uint8_t \{(.*?)\n\};", (HERE / "rules.h").read_text(), re.S)
    assert body
    return {name: i for i, name in enumerate(re.findall(r"^\s*(k\w+),", body.group(1), re.M))}


OPERATIONS = read_operations()
MAX_VARIABLES = read_constants("kMaxVariables")
MAX_STACK = read_constants("kMaxRuleStack")


class Compiler:
    """Translates one rule of a game to byte code appended to `code`; names maps variables to their indices."""

    def __init__(
        self,
        code: bytearray,
        names: dict[str, int],
        first_temporary: int,
        tables: dict[str, Any],
        *,
        mode_program: bool,
    ) -> None:
        self.code = code
        self.names = dict(names)  # grows by temporaries
        self.next_temporary = first_temporary
        self.num_variables = len(names)
        self.tables = tables
        self.mode_program = mode_program
        self.old: dict[str, int] = {}  # variable -> temporary that keeps its value from before the step
        self.depth = 0

    # ---- Code ----------------------------------------------------------------------------------------------------

    def emit(self, operation: str, *operands: int, effect: int) -> None:
        """Appends one operation; `effect` is its change of the stack's depth."""
        self.code += bytes([OPERATIONS[operation], *operands])
        self.depth += effect
        if self.depth > MAX_STACK:
            raise RuleError(f"the expression needs more than {MAX_STACK} intermediate values")

    def emit_jump(self, operation: str, target: int = 0) -> int:
        """Appends a jump and returns the place of its target, for `land`."""
        self.emit(operation, *target.to_bytes(2, "little"), effect=-1 if operation == "kJumpIfZero" else 0)
        return len(self.code) - 2

    def land(self, place: int) -> None:
        """Makes the jump whose target is at `place` go to the present end of the code."""
        self.code[place : place + 2] = len(self.code).to_bytes(2, "little")

    def temporary(self, name: str) -> int:
        """Returns the index of a variable or temporary, new if need be."""
        if name not in self.names:
            if self.next_temporary == MAX_VARIABLES:
                raise RuleError(f"more than {MAX_VARIABLES} variables and temporaries")
            self.names[name] = self.next_temporary
            self.next_temporary += 1
        return self.names[name]

    # ---- Expressions ---------------------------------------------------------------------------------------------

    def constant(self, node: ast.expr, lowest: int, highest: int) -> int:
        value = node.value if isinstance(node, ast.Constant) else None
        if type(value) is not int or not lowest <= value <= highest:
            raise RuleError(f"'{ast.unparse(node)}' must be a number {lowest}..{highest}")
        return value

    def address(self, node: ast.expr) -> int:
        return self.constant(node, 0x80, 0xFF) & 0x7F

    def address_list(self, node: ast.expr) -> list[int]:
        """The addresses of `ram[0x80:0x90, 0x95]`."""
        if not isinstance(node, ast.Subscript) or ast.unparse(node.value) != "ram":
            raise RuleError(f"'{ast.unparse(node)}' must be a list of RAM bytes such as ram[0x80:0x90, 0x95]")
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        addresses: list[int] = []
        for part in parts:
            if isinstance(part, ast.Slice) and part.lower and part.upper and part.step is None:
                first, end = self.address(part.lower), self.constant(part.upper, 0x81, 0x100) - 0x80
                addresses += range(first, end)
            elif not isinstance(part, ast.Slice):
                addresses.append(self.address(part))
            else:
                raise RuleError(f"'{ast.unparse(part)}' must be first:end")
        return addresses

    def push(self, value: int) -> None:
        if 0 <= value <= 255:
            self.emit("kByte", value, effect=1)
        else:
            self.emit("kInt", *value.to_bytes(4, "little", signed=True), effect=1)

    def expression(self, node: ast.expr) -> None:
        """Emits code that leaves the value of `node` on the stack."""
        match node:
            case ast.Constant(value=int() as value) if type(value) is int:
                self.push(value)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as value)):
                self.push(-value)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                self.expression(operand)
                self.emit("kNegate", effect=0)
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                self.expression(operand)
                self.emit("kNot", effect=0)
            case ast.Name(id=name):
                self.name(name)
            case ast.Attribute(value=ast.Name(id="old"), attr=name):
                self.old_value(name)
            case ast.Subscript(value=ast.Name(id="ram"), slice=index):
                self.emit("kRam", self.address(index), effect=1)
            case ast.Subscript(value=ast.Name(id="cart_ram"), slice=index):
                self.emit("kCartRam", self.constant(index, 0, 127), effect=1)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in BINARY_OPERATORS:
                if isinstance(op, ast.FloorDiv | ast.Mod):
                    self.constant(right, 1, 2**31 - 1)
                self.binary(BINARY_OPERATORS[type(op)], left, right)
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARISONS:
                self.binary(COMPARISONS[type(op)], left, right)
            case ast.BoolOp(op=op, values=[first, *rest]):
                self.expression(first)
                for value in rest:
                    self.expression(value)
                    self.emit("kAnd" if isinstance(op, ast.And) else "kOr", effect=-1)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                for part in (body, orelse, test):
                    self.expression(part)
                self.emit("kSelect", effect=-2)
            case ast.Call(func=ast.Name(id=function), args=arguments, keywords=keywords):
                self.call(function, arguments, {k.arg: k.value for k in keywords if k.arg})
            case _:
                raise RuleError(f"'{ast.unparse(node)}' is not part of the rule language")

    def binary(self, operation: str, left: ast.expr, right: ast.expr) -> None:
        self.expression(left)
        self.expression(right)
        self.emit(operation, effect=-1)

    def name(self, name: str) -> None:
        if name == "mode" and self.mode_program:
            self.emit("kMode", effect=1)
        elif name in self.names:
            self.emit("kVariable", self.names[name], effect=1)
        else:
            raise RuleError(f"'{name}' has no value here; variables: {', '.join(self.names)}")

    def old_value(self, name: str) -> None:
        if name not in list(self.names)[: self.num_variables]:
            raise RuleError(f"'old.{name}': there is no variable '{name}'")
        self.emit("kVariable", self.old.get(name, self.names[name]), effect=1)

    def call(self, function: str, arguments: list[ast.expr], keywords: dict[str, ast.expr]) -> None:
        """Emits a call of one of the built-in functions."""
        if keywords and function != "digits":
            raise RuleError(f"'{function}' has no keyword arguments")
        match function, arguments:
            case ("bcd", [_, *_]) if len(arguments) <= 4:
                self.emit("kBcd", len(arguments), *map(self.address, arguments), effect=1)
            case ("digits", [_, *_]) if len(arguments) <= 8 and keywords.keys() <= {"mask", "shift", "blank"}:
                option = {key: self.constant(value, 0, 255) for key, value in keywords.items()}
                blank = option.get("blank", 0xFFFF).to_bytes(2, "little")
                head = (len(arguments), option.get("mask", 255), option.get("shift", 0), *blank)
                self.emit("kDigits", *head, *map(self.address, arguments), effect=1)
            case ("count", [places, _, *_]):
                addresses = self.address_list(places)
                values = [self.constant(value, 0, 255) for value in arguments[1:]]
                self.emit("kCount", len(addresses), len(values), *values, *addresses, effect=1)
            case ("sum_positive" | "sum_negative", [places]):
                addresses = self.address_list(places)
                operation = "kSumPositive" if function == "sum_positive" else "kSumNegative"
                self.emit(operation, len(addresses), *addresses, effect=1)
            case ("uniform_blocks", [start, length, count]):
                operands = (self.address(start), self.constant(length, 1, 128), self.constant(count, 1, 128))
                self.emit("kUniform", *operands, effect=1)
            case ("lookup", [key, table, default]):
                self.expression(key)
                self.expression(default)
                pairs = [byte for pair in self.lookup_table(table) for byte in pair]
                self.emit("kLookup", len(pairs) // 2, *pairs, effect=-1)
            case ("clamp", [value, low, high]):
                self.binary("kMax", value, low)
                self.expression(high)
                self.emit("kMin", effect=-1)
            case (_, [value]) if function in UNARY_FUNCTIONS:
                self.expression(value)
                self.emit(UNARY_FUNCTIONS[function], effect=0)
            case (_, [left, right]) if function in BINARY_FUNCTIONS:
                self.binary(BINARY_FUNCTIONS[function], left, right)
            case _:
                raise RuleError(f"'{function}' with {len(arguments)} arguments is not part of the rule language")

    def lookup_table(self, node: ast.expr) -> list[tuple[int, int]]:
        """The (key, value as an unsigned byte) pairs of a dictionary or of a table of the game."""
        if isinstance(node, ast.Name) and node.id in self.tables:
            items = [(int(key), value) for key, value in self.tables[node.id].items()]
        elif isinstance(node, ast.Dict):
            items = list(ast.literal_eval(node).items())
        else:
            raise RuleError(f"'{ast.unparse(node)}' is neither a table of this game nor {{key: value, ...}}")
        if any(not 0 <= key <= 255 or not -128 <= value <= 127 for key, value in items):
            raise RuleError("the keys of a table must be 0..255 and its values -128..127")
        return [(key, value & 255) for key, value in items]

    # ---- Statements ----------------------------------------------------------------------------------------------

    def assign(self, name: str, value: ast.expr) -> None:
        if name in ("old", "ram", "cart_ram", "mode"):
            raise RuleError(f"'{name}' cannot be assigned")
        self.expression(value)
        self.emit("kStore", self.temporary(name), effect=-1)

    def statements(self, body: list[ast.stmt]) -> None:
        for statement in body:
            try:
                self.statement(statement)
            except RuleError as error:
                error.line = max(error.line, statement.lineno)
                raise

    def statement(self, node: ast.stmt) -> None:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self.assign(name, value)
            case ast.While(test=test, body=body, orelse=[]) if self.mode_program:
                if not any(isinstance(inner, ast.Expr) for part in body for inner in ast.walk(part)):
                    raise RuleError("the loop never ends: nothing in it lets the console run")
                start = len(self.code)
                self.expression(test)
                leave = self.emit_jump("kJumpIfZero")
                self.statements(body)
                self.emit_jump("kJump", start)
                self.land(leave)
            case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Name(id="range"), args=[count]), body=body):
                if not self.mode_program or node.orelse:
                    raise RuleError("a loop has no place here")
                self.repeat(name, self.constant(count, 1, 10_000), body)
            case ast.If(test=test, body=body, orelse=orelse) if self.mode_program:
                self.expression(test)
                leave = self.emit_jump("kJumpIfZero")
                self.statements(body)
                if orelse:
                    end = self.emit_jump("kJump")
                    self.land(leave)
                    self.statements(orelse)
                    leave = end
                self.land(leave)
            case ast.Expr(value=ast.Call(func=ast.Name(id=function), args=arguments)) if self.mode_program:
                self.request(function, arguments)
            case _:
                raise RuleError(f"'{ast.unparse(node)}' is not part of the rule language")

    def repeat(self, name: str, count: int, body: list[ast.stmt]) -> None:
        """Emits `for name in range(count)`, with a counter that goes down."""
        index = self.temporary(f"for {name}")
        self.push(count)
        self.emit("kStore", index, effect=-1)
        start = len(self.code)
        self.emit("kVariable", index, effect=1)
        leave = self.emit_jump("kJumpIfZero")
        self.statements(body)
        self.emit("kVariable", index, effect=1)
        self.push(1)
        self.emit("kSubtract", effect=-1)
        self.emit("kStore", index, effect=-1)
        self.emit_jump("kJump", start)
        self.land(leave)

    def request(self, function: str, arguments: list[ast.expr]) -> None:
        """Emits one of the requests of a mode program."""
        match function, arguments:
            case "select", [frames]:
                self.push(self.constant(frames, 1, 10_000))
                self.emit("kPressSelect", effect=-1)
            case "select_random", [least, modulus]:
                self.push(self.constant(least, 1, 10_000))
                self.push(self.constant(modulus, 1, 10_000))
                self.emit("kPressRandom", effect=-2)
            case "act", [ast.Name(id=action)] if action in ACTIONS:
                self.emit("kAct", ACTIONS.index(action), effect=0)
            case "soft_reset", []:
                self.emit("kSoftReset", effect=0)
            case "fail", []:
                self.emit("kFail", effect=0)
            case _:
                raise RuleError(f"'{function}({', '.join(map(ast.unparse, arguments))})' is no request to the console")

    def keep_old_values(self, body: list[ast.stmt]) -> None:
        """Copies the variables whose `old` value is read after they have been assigned."""
        assigned: set[str] = set()
        for statement in body:
            for node in ast.walk(statement):
                match node:
                    case ast.Attribute(value=ast.Name(id="old"), attr=name) if name in assigned & self.names.keys():
                        self.old[name] = -1
            if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
                assigned.add(statement.targets[0].id)
        for name in self.old:
            self.emit("kVariable", self.names[name], effect=1)
            self.old[name] = self.temporary(f"old {name}")
            self.emit("kStore", self.old[name], effect=-1)


def compile_rule(
    code: bytearray, text: str, names: dict[str, int], first_temporary: int, tables: dict[str, Any], kind: str
) -> tuple[int, int]:
    """Appends the code of one rule; returns its start and the first index that its temporaries leave free.

    Args:
        code: The code of all games so far.
        text: The rule as written.
        names: Index of each variable of the game.
        first_temporary: Index of the first temporary that the rule may use.
        tables: The game's look-up tables.
        kind: "expression", "step" or "program".
    """
    start = len(code)
    compiler = Compiler(code, names, first_temporary, tables, mode_program=kind == "program")
    try:
        if kind == "expression":
            compiler.expression(ast.parse(text, mode="eval").body)
        else:
            body = ast.parse(text).body
            if kind == "step":
                compiler.keep_old_values(body)
            compiler.statements(body)
    except SyntaxError as error:
        raise RuleError(f"syntax error: {error.msg}", error.lineno or 1) from None
    compiler.emit("kEnd", effect=0)
    if len(code) > 0xFFFF:
        raise RuleError("the rules of all games need more than 64 KiB of code")
    return start, compiler.next_temporary


def parse_actions(text: str) -> list[int]:
    """The action numbers of `all`, `all but A B` or `A B C`."""
    words = text.split()
    for word in words:
        if word not in (*ACTIONS, "all", "but"):
            raise RuleError(f"there is no action '{word}'")
    if words[:1] == ["all"]:
        if words[1:2] not in ([], ["but"]):
            raise RuleError("write `all`, `all but A B` or `A B`")
        return [i for i, action in enumerate(ACTIONS) if action not in words]
    return sorted(ACTIONS.index(word) for word in words)


def check(condition: bool, message: str) -> None:
    if not condition:
        raise RuleError(message)


def bit_mask(numbers: list[int]) -> int:
    return sum(1 << number for number in numbers)


class Tables:
    """Everything that goes into the generated header."""

    def __init__(self) -> None:
        self.code = bytearray()
        self.modes: list[int] = []
        self.games: list[str] = []  # initialisers of Game
        self.names: list[str] = []
        self.descriptions: list[str] = []  # JSON

    def add(self, name: str, entry: dict[str, Any], key: list[str]) -> None:
        """Compiles one game. `key[0]` is kept at the key in work, for error messages."""
        key[0] = sorted(entry.keys() - REQUIRED_KEYS - OPTIONAL_KEYS or {""})[0]
        check(key[0] == "", f"unknown key '{key[0]}'")
        missing = sorted(REQUIRED_KEYS - entry.keys())
        check(not missing, f"the key '{''.join(missing[:1])}' is missing")

        key[0] = "cartridge"
        cartridge = entry["cartridge"]
        check(cartridge in CARTRIDGES, f"unknown cartridge type '{cartridge}'; known: {', '.join(CARTRIDGES)}")
        key[0] = "rom"
        size, md5 = entry["rom"]["size"], entry["rom"]["md5"]
        check(size in CARTRIDGES[cartridge], f"a {cartridge} cartridge cannot have {size} bytes")
        check(re.fullmatch(r"[0-9a-f]{32}", md5) is not None, "md5 must be 32 hexadecimal digits")

        key[0] = "display"
        display = {"format": "NTSC", "ystart": 34, "height": 210, "hmove_blanks": True} | entry.get("display", {})
        check(len(display) == 4 and display["format"] in ("NTSC", "PAL"), "keys: format, ystart, height, hmove_blanks")
        pal = display["format"] == "PAL"
        # ale-py shows 250 lines of a PAL picture whose height is not set otherwise.
        height = 250 if pal and display["height"] == 210 else display["height"]
        check(0 < display["height"] <= height <= 250 and 0 <= display["ystart"] < 256, "picture outside the frame")

        key[0] = "controller"
        controller = {"kind": "joystick", "port": "left", "swapped": False, "max_resistance": 0}
        controller |= entry.get("controller", {})
        kinds = {
            ("joystick", "left", False): "kJoystickLeft",
            ("joystick", "right", False): "kJoystickRight",
            ("paddle", "left", False): "kPaddle",
            ("paddle", "left", True): "kPaddleSwapped",
        }
        chosen = kinds.get((controller["kind"], controller["port"], controller["swapped"]))
        check(len(controller) == 4 and chosen is not None, "keys: kind, port, swapped, max_resistance")

        key[0] = "minimal_actions"
        minimal = parse_actions(entry["minimal_actions"])
        key[0] = "legal_actions"
        legal = parse_actions(entry.get("legal_actions", "all"))
        check(set(minimal) <= set(legal), "minimal actions must be legal")
        key[0] = "starting_actions"
        starting = entry.get("starting_actions", [])
        check(len(starting) <= 3 and all(n > 0 for _, n in starting), "up to three pairs of action and frames")
        numbers = [(CONSOLE_RESET if a == "RESET" else parse_actions(a)[0], n) for a, n in starting]

        key[0] = "modes"
        modes = entry["modes"]
        check(0 < len(modes) < 256 and modes == sorted(modes), "modes must be a list of ascending numbers")
        key[0] = "difficulties"
        check(set(entry["difficulties"]) <= {0, 1, 2, 3}, "difficulties must be numbers 0..3")

        key[0] = "variables"
        variables: dict[str, int] = entry["variables"]
        check({"reward", "terminal"} <= variables.keys(), "the variables 'reward' and 'terminal' are needed")
        names = {variable: i for i, variable in enumerate(variables)}
        key[0] = "persistent"
        persistent = entry.get("persistent", [])
        check(set(persistent) <= names.keys(), "persistent names must be variables")

        tables = entry.get("tables", {})
        starts = {}
        # A mode program waits while steps run: its temporaries must not be theirs.
        first_temporary = len(names)
        for rule, kind in (
            ("step", "step"),
            ("lives", "expression"),
            ("game_over", "expression"),
            ("set_mode", "program"),
        ):
            key[0] = rule
            text = entry.get(rule, "terminal" if rule == "game_over" else "")
            starts[rule], first_temporary = compile_rule(self.code, text, names, first_temporary, tables, kind)

        initial = ", ".join(str(value) for value in variables.values())
        actions = ", ".join(f"{{{action}, {frames}}}" for action, frames in numbers)
        key[0] = "after_load"
        after_load = {"lives": None, "frame_number": None} | entry.get("after_load", {})
        self.games.append(
            f"{{{starts['step']}, {starts['game_over']}, {starts['lives']}, {starts['set_mode']}, {names['reward']}, "
            f"{'kByRule' if 'game_over' in entry else names['terminal']}, "
            f"{len(names)}, {bit_mask([names[p] for p in persistent])}, {{{initial}}},\n"
            f"     static_cast<uint8_t>(CartridgeType::k{cartridge}), {int(pal)}, {int(display['hmove_blanks'])}, "
            f"{display['ystart']}, {height}, {display['height']}, {entry.get('probe_difficulty', 0)}, {size},\n"
            f"     Controller::{chosen}, {bit_mask(entry['difficulties'])}, {len(modes)}, {len(self.modes)}, "
            f"0x{bit_mask(minimal):05x}, 0x{bit_mask(legal):05x}, {controller['max_resistance']}, {{{actions}}}}}"
        )
        self.names.append(name)
        self.modes += modes
        description = {
            "name": name, "md5": md5, "size": size, "cartridge": cartridge, "pal": pal, "ystart": display["ystart"],
            "height": height, "width": 160, "controller": controller["kind"], "port": controller["port"],
            "minimal_actions": minimal, "legal_actions": legal, "starting_actions": starting, "modes": modes,
            "default_mode": modes[0], "difficulties": entry["difficulties"], "default_difficulty": 0,
            "lives_after_load": after_load["lives"], "frame_number_after_load": after_load["frame_number"],
            "variables": list(variables), "notes": entry.get("notes", []),
        }  # fmt: skip
        self.descriptions.append(json.dumps(description))


def line_of(text: str, name: str, key: str) -> int:
    """The line of games.toml on which `key` of game `name` starts; the game's first line when it has no such key."""
    lines = text.splitlines()
    first = lines.index(f"[{name}]")
    for i in range(first + 1, len(lines)):
        if lines[i].startswith("["):
            break
        if key and re.match(rf"{re.escape(key)}\b", lines[i]):
            return i + 1
    return first + 1


def read_palette(text: str) -> tuple[list[tuple[int, int, int]], list[int]]:
    """The 128 colours of a palette and their gray levels."""
    colours = [(int(c[0:2], 16), int(c[2:4], 16), int(c[4:6], 16)) for c in text.split()]
    assert len(colours) == 128, "a palette has 128 colours"
    return colours, [(2989 * r + 5870 * g + 1140 * b + 5000) // 10000 for r, g, b in colours]


def screen_colours(text: str, *, pal: bool) -> tuple[list[int], list[int]]:
    """RGB (768 bytes) and gray (256 bytes) of every pixel value, as ale-py's getScreenRGB and getScreenGrayscale give.

    An odd value of a PAL picture has no colour: its RGB is the gray level of the even value below. ale-py's grayscale
    of such a value is the blue component of the even value above instead, and 0 beyond the table.
    """
    colours, grays = read_palette(text)
    rgb: list[int] = []
    gray: list[int] = []
    for value in range(256):
        even, odd = value // 2, bool(value & 1)
        rgb += (grays[even],) * 3 if pal and odd else colours[even]
        above = colours[even + 1][2] if even + 1 < 128 else 0
        gray.append(above if pal and odd else grays[even])
    return rgb, gray


def c_array(declaration: str, items: list[Any], per_line: int) -> str:
    rows = [", ".join(map(str, items[i : i + per_line])) for i in range(0, len(items), per_line)]
    return f"inline constexpr {declaration} = {{\n    " + ",\n    ".join(rows) + "};\n"


def c_string(text: str) -> str:
    """A C string literal in pieces that every compiler accepts."""
    pieces = [text[i : i + 2000] for i in range(0, len(text), 2000)]
    return "\n        ".join(json.dumps(piece) for piece in pieces)


def header_text() -> str:
    """The generated header.

    Raises:
        RuleError: With the complete message, line of the file included.
    """
    source = GAMES_FILE.read_text()
    tables = Tables()
    entries = tomllib.loads(source)
    if list(entries) != sorted(entries):
        raise RuleError(f"{GAMES_FILE}: the games must be in alphabetical order")
    for name, entry in entries.items():
        key = [""]
        try:
            tables.add(name, entry, key)
        except RuleError as error:
            # Text after `key = \"\"\"` starts on the next line.
            offset = error.line if "\n" in str(entry.get(key[0], "")) else 0
            raise RuleError(
                f"{GAMES_FILE}:{line_of(source, name, key[0]) + offset}: [{name}] {key[0]}: {error}"
            ) from None
    palettes = tomllib.loads(PALETTES_FILE.read_text())
    parts = [
        "// Generated by cuda/games/generate_tables.py from games.toml and palettes.toml: edit those.",
        '#pragma once\n\n#include "games/game.h"\n#include "machine/cartridge.h"\n\nnamespace seed {\n',
        f"inline constexpr int kNumGames = {len(tables.names)};\n",
        c_array(f"uint8_t kRuleCode[{len(tables.code)}]", list(tables.code), 32),
        c_array(f"uint16_t kGameModes[{len(tables.modes)}]", tables.modes, 24),
        c_array("Game kGames[kNumGames]", tables.games, 1),
        c_array("const char* kGameNames[kNumGames]", [json.dumps(name) for name in tables.names], 6),
        c_array("const char* kGameDescriptions[kNumGames]", list(map(c_string, tables.descriptions)), 1),
    ]
    for standard in ("ntsc", "pal"):
        rgb, gray = screen_colours(palettes[standard], pal=standard == "pal")
        parts.append(c_array(f"uint8_t k{standard.title()}Rgb[768]", rgb, 24))
        parts.append(c_array(f"uint8_t k{standard.title()}Gray[256]", gray, 32))
    parts.append("}  // namespace seed")
    return "\n".join(parts) + "\n"


def main() -> int:
    if len(sys.argv) != 2:
        print("usage: generate_tables.py OUTPUT_FILE", file=sys.stderr)
        return 2
    try:
        text = header_text()
    except (RuleError, tomllib.TOMLDecodeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    output = Path(sys.argv[1])
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
