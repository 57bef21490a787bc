"""Cards: what a notebook shows of a model, a fit and a summary, with nothing obeyed."""

import numpy as np
from sklearn import config_context

from page_reader import HOSTILE, Page, fit
from unshuffle import ShuffledLinearRegression


def test_a_fitted_model_shows_its_summary_and_an_unfitted_one_its_diagram():
    model, _ = fit("ls")
    for shown in (model._repr_html_(), model._repr_mimebundle_()["text/html"]):
        page = Page(shown)
        assert page.open == []
        assert "ShuffledLinearRegression(method='ls', random_state=0)" in page.text
        assert all(line in page.text for line in model.summary().explanation[1:])
    assert "sk-container" in ShuffledLinearRegression()._repr_html_()
    with config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()


def test_model_fit_and_summary_show_the_same_numbers():
    model, _ = fit()
    cards = [Page(each._repr_html_()).text for each in (model, model.result_, model.summary())]
    for row in model.summary().rows:
        line = f"{row.name} {row.estimate:.4g} {row.sd:.4g} {row.low:.4g} {row.high:.4g}"
        line += f" {row.determined}"
        assert all(line in card for card in cards)
    assert all("Identified" in card for card in cards)


def test_names_in_a_card_are_shown_and_never_obeyed():
    model, _ = fit(d=len(HOSTILE), names=HOSTILE, n=150, bags=10)
    page = Page(model.result_._repr_html_())
    assert not {"script", "img"} & {tag for tag, _ in page.tags}
    assert all(name in page.text for name in HOSTILE[:-1])


def test_conf_int_of_the_intercept_is_its_last_row():
    model, _ = fit()
    with_it = model.conf_int(intercept=True)
    assert np.array_equal(with_it[:-1], model.conf_int()) and len(with_it) == 3
    last = model.summary().rows[-1]
    assert with_it[-1].tolist() == [last.low, last.high]
