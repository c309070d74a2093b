"""Laws of networks that first learn from images without labels."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from drpu.networks import modules
from paper.pretraining import Pretraining, contrast, pretrained, view


def blobs(n, seed):
    """Images of eight bits, each with some bright squares of its own."""
    coarse = np.random.default_rng(seed).integers(0, 2, (n, 4, 4))
    return (255 * coarse.repeat(3, axis=-2).repeat(3, axis=-1)).astype(np.uint8)


def stripes(n, seed, channels):
    """Images of stripes, in a direction of its own each."""
    rng = np.random.default_rng(seed)
    angle, phase = rng.uniform(0, np.pi, (n, 1, 1, 1)), rng.uniform(0, 6, (n, channels, 1, 1))
    y, x = np.mgrid[:16, :16]
    return (127 * (1 + np.sin(0.8 * (np.cos(angle) * x + np.sin(angle) * y) + phase))).astype(np.uint8)


def trained(rows, epochs, seed=0):
    torch.manual_seed(1)
    start = modules.ResNet9(rows.shape[1:], 4)
    start.standardise(rows)
    settings = Pretraining(epochs, batch_size=50, seed=seed, device="cpu")
    return start, pretrained(start, rows, settings)


def loss_on(rows, network):
    """The loss of features without the small network behind them, for views of new images."""
    images = torch.as_tensor(rows) / 255
    with torch.no_grad(), torch.random.fork_rng():
        torch.manual_seed(5)
        both = torch.cat([view(images, None, (0, 1)) for _ in range(2)])
        return float(contrast(network.eval().features(both)))


def test_the_loss_is_the_cross_entropy_of_the_other_view():
    outputs = torch.as_tensor(np.random.default_rng(0).normal(size=(6, 3)))
    unit = (outputs / outputs.norm(dim=1, keepdim=True)).numpy()
    losses = []
    for i in range(6):
        likeness = np.exp(unit @ unit[i] / 0.2)  # the temperature
        losses.append(-np.log(likeness[(i + 3) % 6] / np.delete(likeness, i).sum()))
    assert float(contrast(outputs)) == pytest.approx(np.mean(losses))
    assert float(contrast(7 * outputs)) == pytest.approx(np.mean(losses))


@pytest.mark.parametrize("shape", [(9, 12), (3, 9, 12)])
def test_a_view_keeps_shape_darkest_pixels_and_type(shape):
    images = torch.rand(40, *shape) - 3
    images[:20] = -3
    seen = view(images, lambda rows: rows.flip(-1), (-3.0, -2.0))
    assert seen.shape == images.shape
    assert seen.dtype == images.dtype
    assert_allclose(seen[:20].numpy(), -3, atol=1e-3)
    assert float(seen.min()) >= -3
    assert float(seen.max()) <= -3 + np.exp(0.5) + 1e-3  # the largest gain
    assert not torch.equal(seen[20:], images[20:].flip(-1))


@pytest.mark.parametrize("channels", [pytest.param(1, marks=pytest.mark.slow), 3])
def test_new_images_are_found_again_by_a_pretrained_network(channels):
    rows, new = stripes(400, 0, channels), stripes(100, 1, channels)
    before, after = (loss_on(new, network) for network in trained(rows, 10))
    assert before == pytest.approx(np.log(199), abs=0.2)  # as by chance
    assert after < before - 0.4


def test_pretraining_leaves_its_argument_and_follows_its_seed():
    rows = blobs(60, 0)
    start, network = trained(rows, 1)
    kept = {name: value.clone() for name, value in start.state_dict().items()}
    again, other = (
        pretrained(start, rows, Pretraining(1, batch_size=50, seed=seed, device="cpu")) for seed in (0, 1)
    )
    first = [one.layers[0].weight.detach().numpy() for one in (network, again, other)]
    assert_array_equal(first[0], first[1])
    assert not np.array_equal(first[0], first[2])
    assert all(torch.equal(value, kept[name]) for name, value in start.state_dict().items())
    assert torch.equal(network.last.weight, start.last.weight)
