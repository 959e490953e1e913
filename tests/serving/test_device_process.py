"""What a device process does with the requests of its slots, in this process, of a model that is a stub."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnxruntime as ort
import pytest
from tests.waiting import LIMIT, in_thread, until

from pinnace.errors import EngineError
from pinnace.options.settings import Settings
from pinnace.options.target import Target
from pinnace.serving.channel import Channel, Slot, decode_error
from pinnace.serving.device_process import _check, _serve, _serve_stops, _SlotRunner, build_replica
from pinnace.types import DataType, Port

ADD = Path(__file__).parents[1] / "data" / "api" / "add.onnx"
TYPES = [np.dtype(np.float32)]


class Execution:
    """Doubles its input, into the outputs that it is given; notes the arrays and the stops.

    It ends once `ends` is set, or it is stopped.
    """

    def __init__(self):
        self.state, self.given, self.stops, self.error = "state", [], 0, None
        self.ends = threading.Event()
        self.ends.set()

    def run(self, arrays, outputs=None):
        self.given.append((arrays[0], outputs))
        self.ends.wait(LIMIT)
        if self.error:
            raise self.error
        found = arrays[0] * 2
        if outputs is None:
            return [found]
        outputs[0][...] = found
        return outputs

    def stop(self, for_good=False):
        self.stops += 1
        self.error = EngineError("stopped")
        self.ends.set()


@pytest.fixture
def serving():
    """Serve two slots of a model in a thread; return its executions, the slots, both channels, the runner."""
    ended = []

    def start(*shape):
        made = []
        executable = SimpleNamespace(
            inputs=(Port("x", DataType.FLOAT32, (-1,)),), outputs=(Port("y", DataType.FLOAT32, shape),),
            execution=lambda state=None: made.append(Execution()) or made[-1],
        )  # fmt: skip
        slots = [Slot(), Slot()]
        runner = _SlotRunner(slots, executable)
        (control, its_control), (stops, its_stops) = Channel.pair(), Channel.pair()
        threads = [
            threading.Thread(target=_serve, args=(its_control, runner)),
            threading.Thread(target=_serve_stops, args=(its_stops, runner)),
        ]
        for thread in threads:
            thread.start()
        ended.append((threads, (control, its_control, stops, its_stops)))
        return made, slots, control, stops, runner

    yield start
    for threads, channels in ended:
        for channel in channels:
            channel.hang_up()
        for thread in threads:
            thread.join(LIMIT)
            assert not thread.is_alive()
        for channel in channels:
            channel.close()


def ask(slots, control, number, values, request):
    values = np.array(values, np.float32)
    slots[number].inputs.views([values.shape], TYPES)[0][...] = values
    control.send({"slot": number, "shapes": [list(values.shape)], "request": request})
    answer = control.receive()
    assert answer["request"] == request
    if "error" in answer:
        raise decode_error(answer["error"], "here")
    return slots[number].outputs.views(answer["shapes"], TYPES)[0].tolist()


@pytest.mark.parametrize(("shape", "is_fixed"), [((2,), True), ((-1,), False)])
def test_results_are_in_the_slot_and_its_arrays_are_kept(serving, shape, is_fixed):
    made, slots, control, _, _ = serving(*shape)
    assert ask(slots, control, 0, [1, 2], 1) == [2, 4]
    assert ask(slots, control, 1, [3, 4], 2) == [6, 8]
    assert ask(slots, control, 0, [5, 6], 3) == [10, 12]
    (first, into), (second, _), (third, again) = made[0].given
    assert first is third is not second
    assert (into is not None) is is_fixed
    assert into is again
    if not is_fixed:
        assert ask(slots, control, 0, [7, 8, 9], 4) == [14, 16, 18]
        assert made[0].given[3][0] is not first


def test_an_error_is_the_answer_of_its_request_only(serving):
    made, slots, control, _, _ = serving(2)
    made[0].error = EngineError("divided by zero")
    with pytest.raises(EngineError, match="here: divided by zero"):
        ask(slots, control, 0, [1, 2], 1)
    made[0].error = None
    assert ask(slots, control, 0, [1, 2], 2) == [2, 4]


def test_a_request_is_stopped_also_before_it_comes_and_no_other_is(serving):
    made, slots, control, stops, runner = serving(2)
    assert ask(slots, control, 0, [1, 2], 1) == [2, 4]
    stops.send({"stop": 1})  # it has ended
    stops.send({"stop": 3})
    until(lambda: runner._given_up == {3})  # the other thread has read both
    assert ask(slots, control, 0, [1, 2], 2) == [2, 4]
    with pytest.raises(EngineError, match="stopped"):
        ask(slots, control, 0, [1, 2], 3)
    assert made[0].stops == 1
    assert ask(slots, control, 1, [3, 4], 4) == [6, 8]
    assert len(made) == 2


def test_a_request_is_stopped_while_it_runs(serving):
    made, slots, control, stops, _ = serving(2)
    made[0].ends.clear()
    thread, outcome = in_thread(ask, slots, control, 0, [1, 2], 1)
    until(lambda: made[0].given)
    stops.send({"stop": 1})
    thread.join(LIMIT)
    assert list(map(str, outcome)) == ["here: stopped"]


def test_text_has_no_place_in_shared_memory():
    _check([Port("x", DataType.FLOAT32, (1,))])
    with pytest.raises(EngineError, match="'t' contains text, which shared memory cannot hold"):
        _check([Port("x", DataType.FLOAT32, (1,)), Port("t", DataType.STRING, (1,))])


def test_a_replica_describes_its_model():
    executable, told = build_replica(ADD, Target(threads=1), Settings())
    arrays = [np.ones((3, 4, 5), np.float32), np.full((3, 4, 5), 2, np.float32)]
    names = [port.name for port in ort.InferenceSession(ADD).get_inputs()]
    assert [Port.of_record(port).name for port in told["inputs"]] == names
    assert [Port.of_record(port).dtype for port in told["outputs"]] == [DataType.FLOAT32]
    assert told["files"] == ADD.stat().st_size
    assert told["private"] > 0
    assert told["info"]["engine"]
    np.testing.assert_array_equal(executable.execution().run(arrays)[0], arrays[0] + arrays[1])
    executable.close()
