"""The driver's side: parts of the rows with the workers of a cluster, and rounds of questions to them.

A round asks every worker once, for all of its parts. If a worker is lost, those of its parts that are missing are
loaded again by others, take the steps again that all parts have taken, and are asked again: an answer depends on the
data, these steps and the question alone, so that whatever was lost can be made up for.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, is_dataclass
from threading import RLock
from typing import Any, TypeVar

import numpy as np
from dask.delayed import Delayed, delayed
from distributed import Client
from numpy.typing import NDArray

from dconnet.dask import worker
from dconnet.dask.loading import Expected
from dconnet.dask.part import Summary
from dconnet.dask.rounds import LostWorkerError, asked
from dconnet.dask.waiting import (
    LostSchedulerError,
    addresses_of_workers,
    result_of,
    told_if_gone,
    wait_for_tasks,
    wait_for_workers,
)
from dconnet.dask.worker import Behind, Call, Question
from dconnet.model.rows import Block, LeafTree

T = TypeVar("T")

# A part that takes its worker down with it whenever it is loaded, or asked, is given up after so many times.
MOST_LOSSES = 5
# Rows come to the driver, as a sample or because a programme needs all of them, if they have no more numbers:
# half a gigabyte.
MOST_NUMBERS = 1 << 26


# The blocks of X, y and the weights, none of which is here.
Sources = Sequence[tuple[Delayed, Delayed, Delayed | None]]


@dataclass(slots=True, eq=False)
class Parts:
    """All parts of one table, and the rounds of questions to them.

    Parameters
    ----------
    client : distributed.Client
        The way to the cluster.
    sources : sequence of tuples
        The blocks that the parts are made of.
    expected : Expected
        What they must be like.
    """

    client: Client
    sources: Sources
    expected: Expected
    fit: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    summaries: list[Summary] = field(default_factory=list)
    places: dict[int, str] = field(default_factory=dict)  # the worker of each part
    counts: list[tuple[int, float]] = field(default_factory=list)  # rows of each part and their weight, once coded
    rounds: int = 0
    traffic: int = 0
    reloaded: int = 0  # how often parts were made again
    moved: int = 0  # how many parts have gone to workers that have joined
    _steps: list[tuple[Call, Mapping[int, tuple[Any, ...]]]] = field(default_factory=list)
    _far: set[str] = field(default_factory=set)  # workers that only the scheduler can reach
    _lock: RLock = field(default_factory=RLock)  # networks that are trained at once mend in turns

    def load(self) -> None:
        """Have all parts made."""
        found = self._loaded(range(len(self.sources)))
        self.summaries = [found[number] for number in range(len(self.sources))]

    @property
    def n_rows(self) -> int:
        """Number of rows of all parts."""
        return sum(n_rows for n_rows, _ in self.counts)

    @property
    def weight(self) -> float:
        """Sum of the weights of all rows."""
        return float(sum(weight for _, weight in self.counts))

    def numbers_in_parts(self, numbers: NDArray[np.intp]) -> dict[int, NDArray[np.intp]]:
        """Which rows those with these numbers, which ascend, are in the parts that have some of them."""
        ends = np.cumsum([n_rows for n_rows, _ in self.counts])
        holders = np.searchsorted(ends, numbers, side="right")
        firsts = [0, *ends[:-1]]
        return {int(part): (numbers[holders == part] - firsts[part]).astype(np.intp) for part in np.unique(holders)}

    # --- questions ---

    def ask(self, name: str, *arguments: Any, own: Mapping[int, tuple[Any, ...]] | None = None) -> list[Any]:
        """What the method of that name of every part returns, in their order.

        Parameters
        ----------
        name : str
            A method of `Part`.
        *arguments
            Its arguments, the same for all parts.
        own : mapping, optional
            Arguments of single parts, by their number, that come before the others; with these, no other part is asked.
        """
        numbers = range(len(self.sources)) if own is None else sorted(own)
        answers = self._ask((name, arguments), numbers, own or {})
        return [answers[number] for number in numbers]

    def step(self, name: str, *arguments: Any, own: Mapping[int, tuple[Any, ...]] | None = None) -> None:
        """Let all parts take a step, which those take again that are made again."""
        with self._lock:
            self._steps.append(((name, arguments), own or {}))
            last = len(self._steps) - 1
            self._catch_up(dict.fromkeys(range(len(self.sources)), last))
            self._ask(("ready", ()), range(len(self.sources)), {})

    def total(self, merge: Callable[[T, T], T], name: str, *arguments: Any) -> T:
        """What the blocks of leaves of all parts add up to."""
        answers: list[list[Block[T]]] = self.ask(name, *arguments)
        return merged(answers, merge)

    def close(self) -> None:
        """Let the workers give up all parts; those that cannot be reached do so after a while."""
        with suppress(LostSchedulerError), told_if_gone(self.client):
            asked(self.client, self._far, addresses_of_workers(self.client), worker.drop, self.fit)

    def _ask(self, call: Call, numbers: Iterable[int], own: Mapping[int, tuple[Any, ...]]) -> dict[int, Any]:
        answers: dict[int, Any] = {}
        left, losses = list(numbers), 0
        while left:
            found = self._round(worker.answer, call, own, left, len(self._steps))
            behind = {number: answer.n_steps for number, answer in found.items() if isinstance(answer, Behind)}
            answers |= {number: answer for number, answer in found.items() if number not in behind}
            losses = losses + 1 if len(behind) == len(left) else 0
            left = sorted(behind)
            if losses == MOST_LOSSES:
                raise RuntimeError(_lost_each_time(left[0], f"could not answer ({call[0]})"))
            if left:
                self._mend(behind)
        return answers

    def _mend(self, behind: Mapping[int, int | None]) -> None:
        """Have parts made again that are missing, and let those go on that have not taken all steps."""
        with self._lock:
            missing = [number for number, n_steps in behind.items() if n_steps is None]
            if missing:
                self._loaded(missing)
            self._catch_up({number: n_steps or 0 for number, n_steps in behind.items()})

    def _catch_up(self, taken: dict[int, int]) -> None:
        """Let parts that have taken some of the steps take the others; whether they did is for others to see."""
        for n_steps in range(min(taken.values(), default=len(self._steps)), len(self._steps)):
            numbers = [number for number, first in taken.items() if first <= n_steps]
            call, own = self._steps[n_steps]
            self._round(worker.take_step, call, own, numbers, n_steps)

    def _round(
        self,
        function: Callable[..., Any],
        call: Call,
        own: Mapping[int, tuple[Any, ...]],
        numbers: Sequence[int],
        n_steps: int,
    ) -> dict[int, Any]:
        """Ask the workers of these parts once; parts of workers that are gone are missing.

        Raises
        ------
        Exception
            Whatever went wrong with a part.
        """
        parts: dict[str, list[int]] = {}
        for number in numbers:
            parts.setdefault(self.places[number], []).append(number)
        question = Question(
            self.fit, parts, n_steps, call, {number: own[number] for number in numbers if number in own}
        )
        with told_if_gone(self.client):
            answers = asked(self.client, self._far, list(parts), function, question)
        self.rounds += 1
        self.traffic += len(parts) * size_of(call) + size_of(list(own.values())) + size_of(list(answers.values()))
        found: dict[int, Any] = {}
        for address, own_numbers in parts.items():
            answer = answers[address]
            if isinstance(answer, LostWorkerError):
                answer = dict.fromkeys(own_numbers, Behind(None))
            if isinstance(answer, BaseException):
                raise answer
            found |= answer
        return found

    # --- where the parts are ---

    def _loaded(self, numbers: Iterable[int]) -> dict[int, Summary]:
        """Have parts made, by workers that the scheduler chooses."""
        self.reloaded += bool(self.summaries)
        left, found = list(numbers), dict[int, Summary]()
        for _ in range(MOST_LOSSES):
            wait_for_workers(self.client)
            found |= self._computed(left)
            left = [number for number in left if number not in found]
            if not left:
                break
        else:
            raise RuntimeError(_lost_each_time(left[0], "could not be loaded"))
        self.places |= {number: summary.address for number, summary in found.items()}
        return found

    def balance(self) -> None:
        """Let workers that have joined take over parts of those that have more than their share."""
        with self._lock:
            for address, numbers in self._moves().items():
                left = {number: self.places[number] for number in numbers}
                self.places |= {n: summary.address for n, summary in self._computed(numbers, address).items()}
                moved = [number for number, before in left.items() if self.places[number] != before]
                with told_if_gone(self.client):
                    asked(self.client, self._far, sorted(set(left.values())), worker.drop, self.fit, moved)
                self.moved += len(moved)

    def _moves(self) -> dict[str, list[int]]:
        """Which parts should go where: none, unless a worker has two more than another."""
        held: dict[str, list[int]] = {address: [] for address in addresses_of_workers(self.client)}
        for number, address in self.places.items():
            held.setdefault(address, []).append(number)
        moves: dict[str, list[int]] = {}
        while len(held) > 1:
            fullest, emptiest = max(held, key=lambda a: len(held[a])), min(held, key=lambda a: len(held[a]))
            if len(held[fullest]) < len(held[emptiest]) + 2:
                break
            number = held[fullest].pop()
            held[emptiest].append(number)
            moves.setdefault(emptiest, []).append(number)
        return moves

    def _computed(self, numbers: Sequence[int], address: str | None = None) -> dict[int, Summary]:
        """The summaries of parts that were made, if possible there; some may be missing, if workers died."""
        make = delayed(worker.hold, pure=False)
        run = uuid.uuid4().hex[:8]
        tasks = [
            make(self.fit, n, self.expected, *self.sources[n], dask_key_name=f"dconnet-load-{self.fit}-{run}-{n}")
            for n in numbers
        ]
        with told_if_gone(self.client):
            futures = self.client.compute(tasks, workers=address, allow_other_workers=address is not None)
        try:
            wait_for_tasks(self.client, futures)
            found = {number: result_of(self.client, future) for number, future in zip(numbers, futures, strict=True)}
            return {number: summary for number, summary in found.items() if summary is not None}
        finally:
            with suppress(LostSchedulerError), told_if_gone(self.client):
                self.client.cancel(futures)


def _lost_each_time(number: int, what: str) -> str:
    return (
        f"Partition {number} {what}: the worker died each time, {MOST_LOSSES} times in a row. Most likely its "
        "memory is too small: use more workers, or smaller partitions."
    )


def merged(answers: Iterable[Sequence[Block[T]]], merge: Callable[[T, T], T]) -> T:
    """What the blocks of leaves of all parts, in their order, add up to."""
    tree: LeafTree[T] = LeafTree(merge)
    for blocks in answers:
        for block in blocks:
            tree.add(block.first, block.level, block.value)
    return tree.total()


def size_of(value: Any) -> int:
    """Bytes of the numbers in an answer or a question; names and the like count for nothing."""
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, (int, float)):
        return 8
    if isinstance(value, (list, tuple)):
        return sum(map(size_of, value))
    if isinstance(value, Mapping):
        return sum(map(size_of, value.values()))
    if is_dataclass(value):
        return sum(size_of(getattr(value, each.name)) for each in fields(value))
    return 0
