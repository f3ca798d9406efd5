import os
import json as j
from typing import List, Optional
from . import helpers
from .money import Price as P

LIMIT = 10
first, second = 1, 2


class Order(Base):
    kind = "plain"

    def __init__(self, items):
        self.items = items
        total = 0

    @property
    def total(self):
        return sum_up(self.items)

    async def send(self, to, *, fast=False):
        await deliver(to)
        helpers.log(self.total)


def sum_up(items):
    def inner(x):
        return x.price
    return sum(inner(i) for i in items)


def deliver(to):
    order = Order([])
    print(order, to)


if __name__ == "__main__":
    deliver("home")
    print(sum_up([]), j.dumps(LIMIT), os.getcwd())
