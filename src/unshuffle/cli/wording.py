"""Messages of the library in the words of the command line: options in place of parameters."""

from __future__ import annotations

import re

# Phrase of the library → phrase of the command line. Whole phrases, since a column may be called
# like a parameter.
_PHRASES = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"\(missing='(\w+)'\)", r"(--missing \1)"),
        (r"\bmissing is 'error' or 'drop'", "--missing is error or drop"),
        (r"\(na='(.+?)'\)", r"(--na '\1')"),
        (r"\(dates='(.+?)'\)", r"(--dates '\1')"),
        (r"\bmethod='([\w-]+)'", r"--method \1"),
        (r"\buse method '([\w-]+)'", r"use --method \1"),
        (r"\bUse method '([\w-]+)'", r"Use --method \1"),
        (r"\bor method '([\w-]+)'", r"or --method \1"),
        (r"\bmethod 'likelihood' checks\b", "--method likelihood checks"),
        (r"\buse method 'likelihood' or 'ls'", "use --method likelihood or ls"),
        (r"\bleave method at 'auto'", "leave --method at auto"),
        (r"\btakes no model_holds\b", "takes no --model-holds"),
        (r"\bleave l1 and l2 at 0\b", "leave --l1 and --l2 at 0"),
        (r"\bgive a penalty l2 > 0\b", "give a penalty --l2 above 0"),
        (r"^(l1|l2) must be\b", r"--\1 must be"),
        (r"^noise must be\b", "--noise must be"),
        (r"^n_starts must be None or\b", "--starts must be"),
        (r"^n_jobs must be None or\b", "--jobs must be"),
        (r"^time_limit must be\b(.*?) or None \(no limit\)", r"--time-limit must be\1"),
        (r"\braise n_starts\b", "raise --starts"),
        (r"\braise time_limit\b", "raise --time-limit"),
        (r"\braise n_sweeps of Sampler, or use\b", "use"),
        (r"\btry another random_state and method 'ls'", "try another --seed and --method ls"),
        (r"\bleave bag_offsets at '(\w+)'", r"leave --bag-offsets at \1"),
        (r"\bset bag_offsets='(\w+)' in yours", r"give yours --bag-offsets \1"),
        (r"\bbag_offsets='(\w+)'", r"--bag-offsets \1"),
        (r"\bmislinked='?([\w.+-]+?)'? (is no share|has methods)", r"--mislinked \1 \2"),
        (r" \(None: no link is known\)", ""),
        (r"\bleave mislinked out\b", "leave --mislinked out"),
        (r"\bmislinked takes no penalties\b", "--mislinked takes no penalties"),
        (r"\bor declare it categorical\b", "or name it in --categorical"),
        (r"\bnoise_from_calibration\(labels\)", "--calibration FILE"),
        (r"^level must lie\b", "--level must lie"),
        (r"\bas known_noise, such as\b", "as --known-noise, such as"),
        (r"\b(thousands|decimal)='(.)'", r"--\1 \2"),
        (r"\bleave log10 out\b", "leave --log10 out"),
        (r"\bdevice='([^']*)'", r"--device \1"),
        (r"\bleave device out\b", "leave --device out"),
        (r"\bgive None or 'cpu' for the processor\b", "give 'cpu' for the processor"),
    )
)


def rephrase(text: str) -> str:
    """Return a message of the library with options in place of parameters.

    >>> rephrase("drop such rows (missing='drop')")
    'drop such rows (--missing drop)'
    """
    for pattern, words in _PHRASES:
        text = pattern.sub(words, text)
    return text
