"""Threads that stand for the processes of a run."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from kosambi._core.groups import Group
from kosambi.errors import HostError


class Threads(Group):
    """Threads that hand each other their bytes at a barrier."""

    def __init__(self, index, count, board, barrier):
        super().__init__(index, count)
        self.board, self.barrier = board, barrier

    def everyones(self, own):
        try:
            self.board[self.index] = own
            self.barrier.wait(60)
            found = np.stack([self.board[index] for index in range(self.count)])
            self.barrier.wait(60)
        except threading.BrokenBarrierError as error:
            self._is_over = True
            raise HostError("another one was lost") from error
        return found


def in_threads(function, count=2):
    """What `function(group)` returns, or raises, in each of several threads; one that is no `Exception` ends all."""
    board, barrier = {}, threading.Barrier(count)

    def work(index):
        group = Threads(index, count, board, barrier)
        try:
            with group.together():
                return function(group)
        except Exception as error:
            return error
        except BaseException as error:
            barrier.abort()
            return error

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))
