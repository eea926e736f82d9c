"""A round: some workers run a function, and the driver waits for all of them.

Workers are asked directly, over connections that stay open. `Client.run` would go through the scheduler, which makes a
connection to each worker every time. A worker that the client cannot reach is asked through the scheduler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from distributed import Client
from distributed.core import clean_exception, send_recv
from distributed.protocol.pickle import dumps

# How long it is tried to reach a worker.
CONNECT_SECONDS = 2.0
# How often it is looked whether workers that take long are still there.
LOOK_SECONDS = 10.0


class LostWorkerError(Exception):
    """A worker is gone, or its connection: not an error that it tells, such as that of a full disk."""


_GONE = LostWorkerError("The scheduler does not know the worker any more.")


def asked(
    client: Client, far: set[str], addresses: Sequence[str], function: Callable[..., Any], *arguments: Any
) -> dict[str, Any]:
    """What a function says on each of these workers, or the error there; a `LostWorkerError` for one that is gone.

    Parameters
    ----------
    client : distributed.Client
        The way to the cluster.
    far : set of str
        The workers that the client cannot reach, and that the scheduler asks; is added to.
    addresses : sequence of str
        The workers.
    function : callable
        Runs in the event loop of the worker.
    *arguments
        Its arguments.

    Raises
    ------
    OSError
        If the scheduler was needed, and is gone.
    """
    message = {"op": "run", "function": dumps(function), "args": dumps(arguments), "wait": True}
    answers: dict[str, Any] = client.sync(_all_answers, client, addresses, message, far)
    return answers


async def _all_answers(
    client: Client, addresses: Sequence[str], message: dict[str, Any], far: set[str]
) -> dict[str, Any]:
    asking = {address: asyncio.create_task(_answer(client, address, message, far)) for address in addresses}
    try:
        await _ended(client, asking)
        return {address: _GONE if task.cancelled() else task.result() for address, task in asking.items()}
    finally:
        for task in asking.values():
            task.cancel()


async def _ended(client: Client, asking: Mapping[str, asyncio.Task[Any]]) -> None:
    """Wait for the answers of all workers, but not of those that the scheduler has given up.

    A worker that does not move any more keeps its connection. The scheduler hears nothing from it, and gives it up
    after a while (``distributed.scheduler.worker-ttl``).
    """
    left = set(asking.values())
    while left:
        _, left = await asyncio.wait(left, timeout=LOOK_SECONDS)
        known = await client.scheduler.ncores() if left else {}
        for address, task in asking.items():
            if task in left and address not in known:
                task.cancel()


async def _answer(client: Client, address: str, message: dict[str, Any], far: set[str]) -> Any:
    if address not in far:
        try:
            return _told(await _directly(client, address, message))
        except _UnreachableError as error:
            known = await client.scheduler.ncores()
            if address not in known:
                return LostWorkerError(str(error))
            far.add(address)
        except OSError as error:
            return LostWorkerError(str(error))
    # An error of the connection comes back as an answer.
    found = await client.scheduler.broadcast(msg=message, workers=[address], on_error="return")
    response = found[address]
    return LostWorkerError(str(response)) if isinstance(response, OSError) else _told(response)


class _UnreachableError(OSError):
    """There is no connection to a worker."""


async def _directly(client: Client, address: str, message: dict[str, Any]) -> Any:
    try:
        comm = await client.rpc.connect(address, timeout=CONNECT_SECONDS)
    except OSError as error:
        raise _UnreachableError(str(error)) from error
    try:
        return await send_recv(comm, **message)
    finally:
        client.rpc.reuse(address, comm)


def _told(response: Any) -> Any:
    """The answer of a worker, or its error."""
    if isinstance(response, BaseException):
        return response
    return response["result"] if response["status"] == "OK" else clean_exception(**response)[1]
