"""A reader of HTML pages, and small fits for them."""

import copy
import dataclasses
import functools
from html.parser import HTMLParser

from unshuffle import ShuffledLinearRegression, make_shuffled

HOSTILE = ["<script>alert(1)</script>", '"><img src=x>', "{{ 7 * 7 }}", "$x$", "&amp;", "e\x1b[31m"]


VOID = {"meta", "br", "img", "use", "path", "link", "input", "hr"}


class Page(HTMLParser):
    """Collects tags, ids, text and whether tags close in order."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.ids, self.labels, self.words = [], [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append((tag, attrs))
        if attrs.get("id"):
            self.ids.append(attrs["id"])
        self.labels += (attrs.get("aria-labelledby") or "").split()
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


@functools.cache
def fit_once(method, n, d, bags):
    data = make_shuffled(n, d, noise=0.1, bags=bags, rng=0)
    model = ShuffledLinearRegression(method, random_state=0)
    return model.fit(data.X, data.y, groups=data.groups), data


def fit(method="likelihood", n=120, d=2, bags=6, names=None):
    model, data = fit_once(method, n, d, bags)
    model = copy.copy(model)
    if names is not None:
        facts = dataclasses.replace(model.result_.facts, names=(*names, "intercept"))
        model.result_ = dataclasses.replace(model.result_, facts=facts)
    return model, data
