"""What a shop sells, and what it refuses."""

import copy

import pytest

from course_utils.configs.shop import NotOnOffer, OverBudget, Shop, SweptRun

ONE = SweptRun("one", 1, 1, 1, 8, 16, 0.1, price=0.7)
TWO = SweptRun("two", 1, 1, 1, 8, 16, 0.1, price=0.4)


def test_a_run_is_paid_once_and_what_is_left_has_cents():
    shop = Shop({ONE: 1.6, TWO: 2.0}, budget=1.1)
    assert [shop.buy(ONE), shop.buy(ONE), shop.left] == [1.6, 1.6, 0.4]
    assert (shop.buy(TWO), shop.left, shop.bought) == (2.0, 0.0, {ONE: 1.6, TWO: 2.0})


def test_a_run_that_is_too_dear_is_not_sold():
    shop = Shop({ONE: 1.6, TWO: 2.0}, budget=1.0)
    shop.buy(ONE)
    with pytest.raises(OverBudget, match=r"two costs 0\.4 GPU-hours, and 0\.3 are left"):
        shop.buy(TWO)
    assert (shop.left, shop.bought) == (0.3, {ONE: 1.6})


def test_a_run_that_is_not_on_offer_is_not_sold():
    with pytest.raises(NotOnOffer, match="wanted a run of `offers`, got "):
        Shop({ONE: 1.6}, budget=1.0).buy(TWO)


def test_times_are_not_shown():
    assert repr(Shop({ONE: 1.6}, budget=1.0)) == "<shop: 1 on offer, 1.0 GPU-hours left>"


def test_nobody_gets_more_hours_than_the_shop_had():
    shop = Shop({ONE: 1.6, TWO: 2.0}, budget=ONE.price)
    shop.buy(ONE)
    with pytest.raises(AttributeError):
        shop.left = 100.0
    shop.bought.clear()
    for each in (shop, copy.copy(shop), copy.deepcopy(shop)):
        with pytest.raises(OverBudget):
            each.buy(TWO)
