"""What a source prints beside what an answer holds: reading both, and saying whether they agree.

`ours` is an expression over the JSON of the item's commands: names and [...] lead into it, + - * / ** and the functions
below combine what is there. `rows["schedule=1f1b"]` is the entry of a list that says so, in itself or in its `set`; a second
and a third condition follow after commas: `rows["schedule=1f1b, scenario.name=a"]`. Fields of another command of the item
are reached through its label. No other Python is understood, and what reads nothing of an answer is refused: a value of ours
cannot be typed.
"""
import ast
import dataclasses
import json
import re

FUNCTIONS = {"min": min, "max": max, "sum": sum, "len": len, "abs": abs, "round": round, "sqrt": lambda x: x**0.5}
OPERATORS = {ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
             ast.Div: lambda a, b: a / b, ast.Pow: lambda a, b: a**b, ast.FloorDiv: lambda a, b: a // b}
VALUE_KEYS = ("what", "source", "ours", "unit", "at", "within", "why")
PRINTED = re.compile(r"[+-]?[\d,]*\.?\d+(e[+-]?\d+)?")


class GalleryError(Exception):
    pass


def read_answer(text):
    """The JSON of a command; of one that answers several at once (an array, or a line each) the list `answers`."""
    try:
        answer = json.loads(text)
    except json.JSONDecodeError:
        answer = [json.loads(line) for line in text.splitlines()]
    return {"answers": answer} if isinstance(answer, list) else answer


@dataclasses.dataclass
class Value:
    """One line of a table: what, the source's number, ours, and how they compare.

    mark: equal (to the digits that the source prints), near (`within` says how far it may be off) or differs (`why` says
    why). complaint: what is wrong with it, where something is.
    """
    what: str
    unit: str
    at: str
    why: str
    path: str            # where ours was read
    formula: str = ""    # how the source's number comes about, where it is computed
    source: str = ""
    ours: str = ""
    difference: str = ""
    mark: str = "differs"

    @property
    def complaint(self):
        if self.mark == "differs" and not self.why:
            return f"{self.what}: {self.ours} where the source has {self.source} {self.difference}, and no 'why'"
        if self.mark != "differs" and self.why:
            return f"{self.what}: agrees by now ({self.ours}): take its 'why' away"
        return ""


def lookup(part, key):
    """An entry of `part` by key, position or by what it says of itself."""
    if isinstance(part, dict):
        return part[key]
    if isinstance(key, int):
        return part[key]
    conditions = [condition.split("=", 1) for condition in re.split(r",\s*(?![^{\[]*[}\]])", key)]

    def says(entry, name, wanted):
        first, _, rest = name.partition(".")
        for place, key in ((entry, name), (entry.get("set", {}), name), (entry.get(first, {}), rest)):
            if isinstance(place, dict) and key in place:
                found = place[key]
                return wanted == (found if isinstance(found, str) else json.dumps(found).replace('"', ""))
        return False

    found = [entry for entry in part if all(says(entry, *condition) for condition in conditions)]
    if len(found) != 1:
        raise KeyError(f"{len(found)} entries say '{key}'")
    return found[0]


def compute(expression, answers):
    """The number that an expression stands for; `answers` by label, that of the first command under ''."""
    def visit(node):
        if isinstance(node, ast.Expression):
            return visit(node.body)
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float, str)):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](visit(node.left), visit(node.right))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -visit(node.operand)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FUNCTIONS:
            return FUNCTIONS[node.func.id](*[visit(argument) for argument in node.args])
        if isinstance(node, ast.Name):
            return answers[node.id] if node.id in answers else lookup(answers[""], node.id)
        if isinstance(node, ast.Attribute):
            return lookup(visit(node.value), node.attr)
        if isinstance(node, ast.Subscript):
            return lookup(visit(node.value), visit(node.slice))
        raise GalleryError(f"not understood in an expression: {ast.unparse(node)}")
    return visit(ast.parse(expression.strip(), mode="eval"))


def reads_an_answer(expression):
    tree = ast.parse(expression.strip(), mode="eval")
    return any(isinstance(node, ast.Name) and node.id not in FUNCTIONS for node in ast.walk(tree))


def as_text(answer):
    """Of an answer that is no number: words, yes or no, or a list with spaces between."""
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    if isinstance(answer, list) and not any(isinstance(entry, (list, dict)) for entry in answer):
        return " ".join(str(entry) for entry in answer)
    if isinstance(answer, str):
        return answer
    raise GalleryError(f"neither a number nor a text: {json.dumps(answer)[:60]}")


def filled_in(text, answers):
    """A caption with its numbers: `{expression|format}`, as in `{100 * bubble_rate|.1f}`."""
    def number(found):
        expression, form = found[1].rsplit("|", 1)
        if not reads_an_answer(expression):
            raise GalleryError(f"reads nothing of an answer: {found[0]}")
        return format(compute(expression, answers), form)
    return re.sub(r"\{([^{}]*\|[^{}|]*)\}", number, text)


def digits(text):
    """Decimals of a number as it is printed; None of one that is computed."""
    if not PRINTED.fullmatch(text):
        return None
    mantissa, _, exponent = text.replace(",", "").partition("e")
    return len(mantissa.partition(".")[2]) - int(exponent or 0)


def written(number, decimals):
    if decimals is None:
        return f"{number:,.0f}" if float(number).is_integer() and abs(number) < 1e15 else f"{number:,.6g}"
    return f"{number:,.{max(decimals, 0)}f}"


def compare(value, source, ours, decimals, within):
    """Fills in the numbers of `value`: to `decimals` of the source, where it prints them."""
    exact = 1e-9 * abs(source) + 1e-12 if decimals is None else 0.5 * 10.0**-decimals * (1 + 1e-9)
    allowed = float(within.rstrip(" %")) / 100 * abs(source) if "%" in within else float(within or 0)
    off = abs(ours - source)
    value.mark = "equal" if off <= exact else "near" if off <= allowed else "differs"
    value.source = written(source, decimals)
    value.ours = written(ours, decimals if decimals is None or value.mark == "equal" else decimals + 1)
    if value.mark != "equal":
        value.difference = f"{100 * (ours / source - 1):+.1f} %" if source else f"{ours:+.3g}"


def judge(item, told, answers):
    """A value of an item as its section's file tells it, with the JSON of the item's commands by label."""
    for key in told:
        if key not in VALUE_KEYS:
            raise GalleryError(f"{item}: unknown key '{key}' of a value; known: {' '.join(VALUE_KEYS)}")
    value = Value(*(told.get(key, "") for key in ("what", "unit", "at", "why", "ours")))
    decimals = digits(told["source"])
    try:
        if not reads_an_answer(value.path):
            raise GalleryError("reads nothing of an answer")
        ours = compute(value.path, answers)
        if isinstance(ours, bool) or not isinstance(ours, (int, float)):
            value.source, value.ours = told["source"], as_text(ours)
            value.mark = "equal" if value.source == value.ours else "differs"
        elif decimals is not None:
            compare(value, float(told["source"].replace(",", "")), ours, decimals, told.get("within", ""))
        else:
            value.formula = told["source"]
            compare(value, compute(value.formula, {"": {}}), ours, None, told.get("within", ""))
    except (KeyError, IndexError, TypeError, ValueError, SyntaxError, ArithmeticError, GalleryError) as error:
        raise GalleryError(f"{item}: {value.what}: {value.path}: {type(error).__name__}: {error}") from None
    return value
