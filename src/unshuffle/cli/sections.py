"""Help texts whose options are grouped in sections."""

from __future__ import annotations

import click

# Section → its options by parameter name, in the order shown.
SECTIONS = {
    "Data": (
        "label", "features", "bag", "formula", "exclude", "categorical", "base", "log10", "id",
        "weight", "anchor", "rows", "labels", "separate", "same_individuals", "together", "truth",
        "missing",
    ),
    "Runs": ("runs", "sizes", "capacity", "label_sd", "weights", "offset", "trials"),
    "Outsider": ("known", "known_noise", "accept"),
    "Model": (
        "method", "methods", "noise", "bag_offsets", "calibration", "model_holds", "l1", "l2",
        "no_intercept", "starts", "time_limit", "seed",
    ),
    "Links between rows and labels": (
        "mislinked", "link_probability", "link_columns", "audit", "safe",
    ),
    "Output": (
        "report", "save", "out", "as_object", "level", "new_label", "draws", "figure", "pictures",
        "picture_format", "exposed", "strict", "strict_model", "verbose", "quiet", "help",
    ),
    "Reading files": (
        "na", "dates", "delimiter", "decimal", "thousands", "encoding", "header",
        "allow_offset_error",
    ),
    "Large data": ("jobs", "device", "dask"),
}  # fmt: skip


class Sectioned(click.Command):
    """A command whose help groups options by `SECTIONS`, after its own options."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the options, section by section."""
        left = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if isinstance(param, click.Option) and record is not None:
                left["help" if "--help" in param.opts else param.name] = record
        sections = {
            title: [left.pop(name) for name in names if name in left]
            for title, names in SECTIONS.items()
        }
        for title, records in {"Options": list(left.values()), **sections}.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
