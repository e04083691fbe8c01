"""A chief whose workers are asked from here."""

import socket
import threading
import time

import grpc
import keras_tuner
import pytest
from keras_tuner.src.distribute.oracle_client import OracleClient

from modtf.tuning.chief import serve
from modtf.tuning.oracles import STOPPED, Grid
from modtf.tuning.role import role_here


@pytest.fixture
def address(monkeypatch, together):
    for name, value in together("one").items():
        monkeypatch.setenv(name, value)
    return role_here().address


@pytest.fixture
def oracle(tmp_path):
    """A grid of two."""
    space = keras_tuner.HyperParameters()
    space.Choice("learning_rate", [0.1, 0.01])
    grid = Grid(space)
    grid._set_project_dir(str(tmp_path), "search")
    return grid


@pytest.fixture
def chief(oracle, address):
    """What a chief's thread ended with, once it has."""
    ended: list[Exception | None] = []

    def run():
        try:
            serve(oracle, address)
            ended.append(None)
        except Exception as error:
            ended.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def result():
        thread.join(30)
        return ended

    return result


def finish(client, name):
    trial = client.create_trial(name)
    client.update_trial(trial.trial_id, {"validation": 1.0})
    trial.status = "COMPLETED"
    client.end_trial(trial)


def test_it_ends_when_every_worker_has_been_told(chief, oracle):
    client = OracleClient(oracle)
    for name in ("one", "two"):
        finish(client, name)
    assert client.create_trial("one").status == STOPPED
    time.sleep(1.5)
    assert client.create_trial("two").status == STOPPED, "the chief had left"
    assert chief() == [None]


def test_nobody_answers_at_its_address_afterwards(chief, oracle, address):
    client = OracleClient(oracle)
    finish(client, "one")
    finish(client, "one")
    client.create_trial("one")
    assert chief() == [None]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])))


def test_a_full_disk_ends_it_with_the_error_of_the_disk(chief, oracle, monkeypatch):
    def full():
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(oracle, "save", full)
    with pytest.raises(grpc.RpcError, match="No space left"):
        OracleClient(oracle).create_trial("one")
    (error,) = chief()
    assert isinstance(error, OSError)


def test_an_address_that_is_taken_is_refused(oracle, address):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(address.rpartition(":")[2])))
        taken.listen()
        with pytest.raises(ValueError, match="Is another process listening there"):
            serve(oracle, address)
