"""The neural dictionary against a dense one that keeps every key in one matrix."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from mfec.algorithms.nec.dictionary import NeuralDictionary, kernel_mean  # noqa: E402

pytestmark = pytest.mark.torch

DELTA = 1e-3


def dense_look_up(query: Any, keys: Any, values: Any, *, p: int) -> Any:
    """Value and weights of one query by measuring every key, in float64."""
    squared = (query[None] - keys).square().sum(1)
    nearest = torch.argsort(squared, stable=True)[:p]
    kernel = 1.0 / (squared[nearest] + DELTA)
    weights = kernel / kernel.sum()
    return (weights * values[nearest]).sum(), weights, nearest


def filled(rng: np.random.Generator, *, n: int = 200, dim: int = 5, p: int = 7, **options: Any) -> NeuralDictionary:
    dictionary = NeuralDictionary(3, dim, capacity=n, p=p, **options)
    for action in range(3):
        dictionary.write(rng.normal(size=(n, dim)).astype(np.float32), np.full(n, action), rng.normal(size=n))
    return dictionary


def contents(dictionary: NeuralDictionary, action: int) -> tuple[Any, Any]:
    entries = dictionary.memory.entries(action)
    return torch.tensor(entries.states).double(), torch.tensor(entries.values).double()


def test_values_weights_and_every_gradient_are_those_of_a_dense_look_up() -> None:
    rng = np.random.default_rng(0)
    dictionary = filled(rng)
    queries = torch.tensor(rng.normal(size=(6, 5)), dtype=torch.float32).double().requires_grad_()
    actions = np.array([0, 1, 2, 2, 0, 2])
    values, weights, near = dictionary.look_up(queries, actions)
    values.square().sum().backward()

    again = queries.detach().clone().requires_grad_()
    stored = [[tensor.requires_grad_() for tensor in contents(dictionary, action)] for action in range(3)]
    found = [dense_look_up(query, *stored[action], p=7) for query, action in zip(again, actions, strict=True)]
    sum(value.square() for value, _, _ in found).backward()

    assert torch.allclose(values, torch.stack([value for value, _, _ in found]), rtol=1e-9)
    assert torch.allclose(weights, torch.stack([weights for _, weights, _ in found]), rtol=1e-9)
    assert torch.allclose(queries.grad, again.grad, rtol=1e-8)
    for action in range(3):
        own = [torch.zeros_like(tensor) for tensor in stored[action]]
        for row in np.flatnonzero(actions == action):
            slots = torch.from_numpy(near.slots[row])
            own[0].index_add_(0, slots, near.keys.grad[row])
            own[1].index_add_(0, slots, near.values.grad[row])
        for mine, dense in zip(own, stored[action], strict=True):
            assert torch.allclose(mine, dense.grad, rtol=1e-8, atol=1e-12)


def test_gradients_are_those_of_finite_differences() -> None:
    torch.manual_seed(0)
    there = torch.ones(4, 6, dtype=torch.bool)
    there[0, 4:] = False
    inputs = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((4, 3), (4, 6, 3), (4, 6))]
    assert torch.autograd.gradcheck(lambda h, near, values: kernel_mean(h, near, values, there, DELTA), inputs)


def test_a_key_that_was_just_stored_can_be_looked_up_and_learned_from() -> None:
    """At distance 0 the kernel is 1 / delta, and its gradient there is 0, not NaN."""
    dictionary = NeuralDictionary(1, 2, capacity=10, p=3)
    dictionary.write([[0.0, 0.0], [1.0, 0.0]], [0, 0], [1.0, 5.0])
    key = torch.zeros(1, 2, requires_grad=True)
    values, weights, near = dictionary.look_up(key, 0)
    values.sum().backward()
    assert values.item() == pytest.approx((1.0 / DELTA + 5.0 / (1.0 + DELTA)) / (1.0 / DELTA + 1.0 / (1.0 + DELTA)))
    assert torch.isfinite(key.grad).all()
    assert torch.isfinite(near.keys.grad).all()
    assert weights[0, 2] == 0.0
    assert near.slots[0].tolist()[2] == -1


def test_an_empty_dictionary_says_zero() -> None:
    dictionary = NeuralDictionary(2, 2, capacity=10, p=3)
    dictionary.write([[0.0, 0.0]], [0], [1.0])
    key = torch.zeros(2, 2, requires_grad=True)
    values, weights, near = dictionary.look_up(key, [0, 1])
    assert values.tolist() == [1.0, 0.0]
    assert weights[1].tolist() == [0.0] * 3
    values.sum().backward()
    dictionary.descend(near, key_step=0.1, value_step=0.1)
    assert len(dictionary) == 1


def test_a_known_state_moves_by_alpha_wherever_its_key_is() -> None:
    dictionary = NeuralDictionary(1, 1, capacity=10, p=1, alpha=0.25)
    dictionary.write([[0.0]], [0], [8.0], identities=[b"state"])
    dictionary.write([[3.0]], [0], [0.0], identities=[b"state"])
    assert len(dictionary) == 1
    values, _, _ = dictionary.look_up(torch.zeros(1, 1), 0)
    assert values.item() == 6.0


def test_the_entry_that_least_recently_was_a_neighbour_goes_first() -> None:
    dictionary = NeuralDictionary(1, 1, capacity=3, p=1)
    dictionary.write([[0.0], [1.0], [2.0]], [0, 0, 0], [0.0, 1.0, 2.0])
    dictionary.look_up(torch.tensor([[0.1]]), 0)
    dictionary.eval().look_up(torch.tensor([[1.1]]), 0)  # leaves no trace
    dictionary.write([[3.0]], [0], [3.0])
    assert sorted(dictionary.memory.entries(0).values.tolist()) == [0.0, 2.0, 3.0]


def test_entries_found_twice_move_by_both_gradients() -> None:
    dictionary = NeuralDictionary(1, 1, capacity=4, p=1)
    dictionary.write([[0.0]], [0], [1.0])
    keys = torch.tensor([[0.5], [-0.25]], requires_grad=True)
    values, _, near = dictionary.look_up(keys, 0)
    (values * torch.tensor([1.0, 2.0])).sum().backward()
    dictionary.descend(near, key_step=0.0, value_step=0.1)
    assert dictionary.memory.entries(0).values.tolist() == pytest.approx([1.0 - 0.1 * 3.0])


def test_descending_brings_values_to_their_targets_and_neighbours_stay_exact() -> None:
    rng = np.random.default_rng(1)
    dictionary = filled(rng, n=60)
    targets = torch.tensor(rng.normal(size=32), dtype=torch.float32)
    queries = torch.tensor(rng.normal(size=(32, 5)), dtype=torch.float32)
    actions = rng.integers(0, 3, 32)
    losses = []
    for _ in range(300):
        values, _, near = dictionary.look_up(queries, actions)
        loss = (values - targets).square().sum()
        loss.backward()
        dictionary.descend(near, key_step=1e-3, value_step=0.05)
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]
    _, _, near = dictionary.look_up(queries, actions)
    for row, action in enumerate(actions.tolist()):
        _, _, nearest = dense_look_up(queries[row].double(), *contents(dictionary, action), p=7)
        assert near.slots[row].tolist() == nearest.tolist()


def test_own_entries_can_be_left_out() -> None:
    dictionary = NeuralDictionary(2, 1, capacity=10, p=2)
    dictionary.write([[0.0], [1.0], [0.0]], [0, 0, 1], [4.0, 8.0, 2.0], identities=[b"here", b"there", b"here"])
    keys = torch.zeros(3, 1, requires_grad=True)
    values, weights, near = dictionary.look_up(keys, [0, 0, 1], leave_out=[b"here", b"elsewhere", b"here"])
    assert values.tolist() == [8.0, pytest.approx(4.0, abs=0.01), 0.0]
    assert weights[0].tolist() == [0.0, 1.0]
    values.sum().backward()
    dictionary.descend(near, key_step=0.1, value_step=0.1)
    assert dictionary.memory.entries(1).values.tolist() == [2.0]


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        (0.7, "actions must be integers, not float64"),
        ([0, 1, 2], "actions must be 2 numbers in a row"),
        ([[0], [1]], "actions must be 2 numbers in a row"),
        (3, "actions must lie in 0..2, not 3"),
    ],
)
def test_actions_that_are_none_are_refused(actions: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        filled(np.random.default_rng(2)).look_up(torch.zeros(2, 5), actions)


def test_steps_need_gradients() -> None:
    dictionary = filled(np.random.default_rng(2))
    _, _, near = dictionary.look_up(torch.zeros(1, 5), 0)
    with pytest.raises(ValueError, match="call backward"):
        dictionary.descend(near, key_step=0.1, value_step=0.1)


def test_a_state_dict_holds_every_entry() -> None:
    dictionary = filled(np.random.default_rng(3))
    values, _, near = dictionary.look_up(torch.zeros(4, 5, requires_grad=True), [0, 1, 2, 0])
    values.sum().backward()
    dictionary.descend(near, key_step=0.01, value_step=0.01)
    file = io.BytesIO()
    torch.save(dictionary.state_dict(), file)
    file.seek(0)
    other = NeuralDictionary(3, 5, capacity=200, p=7)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert other.mean_square == dictionary.mean_square > 0.0
    again, _, _ = other.look_up(torch.zeros(4, 5), [0, 1, 2, 0])
    before, _, _ = dictionary.look_up(torch.zeros(4, 5), [0, 1, 2, 0])
    assert torch.equal(again, before)
    assert np.array_equal(other.memory.entries().keys, dictionary.memory.entries().keys)


def test_a_known_state_gets_the_key_that_it_has_now() -> None:
    dictionary = NeuralDictionary(2, 1, capacity=10, p=1)
    dictionary.write([[0.0], [5.0], [0.0]], [0, 0, 1], [1.0, 2.0, 3.0], identities=[b"one", b"two", b"one"])
    dictionary.write([[9.0], [7.0]], [0, 0], [1.0, 4.0], identities=[b"one", b"three"])
    first, other = dictionary.memory.entries(0), dictionary.memory.entries(1)
    assert sorted(zip(first.states[:, 0].tolist(), first.values.tolist(), strict=True)) == [
        (5.0, 2.0), (7.0, 4.0), (9.0, 1.0),
    ]  # fmt: skip
    assert other.states.tolist() == [[0.0]]


def test_entries_that_give_up_each_other_in_one_write() -> None:
    dictionary = NeuralDictionary(1, 1, capacity=2, p=1)
    dictionary.write([[0.0], [1.0], [2.0], [3.0]], [0] * 4, [0.0, 1.0, 2.0, 3.0])
    assert sorted(dictionary.memory.entries(0).values.tolist()) == [2.0, 3.0]
