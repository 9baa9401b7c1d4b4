"""What is added to crop and flip: other colours, a square that is cut out, and a patch of another image."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import make_training, trained

from tfcsr.data.views import (
    COLOUR,
    CROP,
    CUT,
    JITTER,
    before_it,
    crop_flip,
    cut_out,
    draw_patches,
    draw_views,
    normalise,
    own_share,
    padding,
    pasted,
    recoloured,
)
from tfcsr.methods.base import Mix
from tfcsr.training.batches import compose, plan_epoch

SAME = 1000  # thousandths


def drawing(seed=0):
    return torch.Generator().manual_seed(seed)


def pictures(count=5, channels=3, height=6, width=7, dtype=torch.uint8):
    x = torch.randint(0, 256, (count, channels, height, width), generator=drawing(3))
    return x.to(dtype)


def colours(count, brightness=SAME, contrast=SAME, saturation=SAME):
    return torch.tensor([[brightness, contrast, saturation]]).repeat(count, 1)


# Colours


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32], ids=str)
def test_a_thousand_thousandths_change_nothing(channels, dtype):
    x = pictures(channels=channels, dtype=dtype)
    seen = recoloured(x, colours(len(x)))
    assert seen.dtype == torch.float32
    torch.testing.assert_close(seen, x.float(), rtol=0, atol=1e-3)


def test_brightness_is_clamped_where_there_is_a_brightest():
    x = torch.tensor([10, 127, 128, 255]).reshape(1, 1, 2, 2)
    seen = recoloured(x.to(torch.uint8), colours(1, brightness=2000))
    torch.testing.assert_close(seen.flatten(), torch.tensor([20.0, 254.0, 255.0, 255.0]))
    seen = recoloured(x.float(), colours(1, brightness=2000))
    torch.testing.assert_close(seen.flatten(), torch.tensor([20.0, 254.0, 256.0, 510.0]))
    assert recoloured(x.float(), colours(1, contrast=3000)).min() < 0
    assert recoloured(x.to(torch.uint8), colours(1, contrast=3000)).min() == 0


def test_without_brightness_all_is_black():
    x = pictures()
    assert (recoloured(x, colours(len(x), brightness=0)) == 0).all()


def test_without_contrast_an_image_is_its_mean():
    x = pictures()
    seen = recoloured(x, colours(len(x), contrast=0))
    torch.testing.assert_close(seen, x.float().mean(dim=(1, 2, 3), keepdim=True).expand_as(seen))


def test_without_saturation_an_image_is_grey():
    x = pictures()
    seen = recoloured(x, colours(len(x), saturation=0))
    torch.testing.assert_close(seen, x.float().mean(dim=1, keepdim=True).expand_as(seen))


@pytest.mark.parametrize("channels", [1, 2, 4])
def test_what_has_no_three_colours_has_no_saturation(channels):
    x = pictures(channels=channels)
    torch.testing.assert_close(recoloured(x, colours(len(x), saturation=0)), x.float(), rtol=0, atol=1e-3)


@settings(max_examples=30)
@given(rows=st.lists(st.tuples(*[st.integers(0, 2500)] * 3), min_size=1, max_size=4), grey=st.booleans())
def test_colours_against_one_by_one(rows, grey):
    """Pixel by pixel, in that order: brightness, contrast, saturation."""
    x = pictures(len(rows), 1 if grey else 3, 2, 3)
    seen = recoloured(x, torch.tensor(rows))
    for image, (brightness, contrast, saturation), found in zip(x, rows, seen, strict=True):
        bright = [[float(p) * brightness / 1000 for p in channel] for channel in image.flatten(1).tolist()]
        flat = [p for channel in bright for p in channel]
        middle = sum(flat) / len(flat)
        apart = [[middle + contrast / 1000 * (p - middle) for p in channel] for channel in bright]
        for i in range(6):
            values = [channel[i] for channel in apart]
            mean = sum(values) / len(values)
            if not grey:
                values = [mean + saturation / 1000 * (p - mean) for p in values]
            expected = [min(255.0, max(0.0, p)) for p in values]
            assert found.flatten(1)[:, i].tolist() == pytest.approx(expected, abs=0.01)


def test_each_image_has_colours_of_its_own():
    x = pictures(2)
    each = torch.tensor([[500, SAME, SAME], [SAME, SAME, 0]])
    seen = recoloured(x, each)
    for i in (0, 1):
        torch.testing.assert_close(seen[i : i + 1], recoloured(x[i : i + 1], each[i : i + 1]))


# The square


def square(height, width, row, column):
    """Where an image of ones is cut: its rows and its columns."""
    seen = cut_out(torch.ones(1, 2, height, width), torch.tensor([[row, column]]))[0]
    assert torch.equal(seen[0], seen[1])  # in all channels
    gone = seen[0] == 0
    rows, columns = gone.any(dim=1), gone.any(dim=0)
    assert torch.equal(gone, rows[:, None] & columns)
    return rows.nonzero().flatten().tolist(), columns.nonzero().flatten().tolist()


@pytest.mark.parametrize("side", [8, 16, 17, 32])
def test_the_square_is_a_quarter_of_the_side(side):
    size, middle = side // 4, side // 2
    expected = list(range(middle - size // 2, middle + size // 2))
    assert square(side, side, middle, middle) == (expected, expected)


@pytest.mark.parametrize("side", [2, 4, 6, 12, 15, 28])
def test_also_where_that_is_an_odd_number(side):
    rows, columns = square(side, side, side // 2, side // 2)
    assert len(rows) == len(columns) == max(1, side // 4)


def test_it_goes_by_the_shorter_side():
    assert square(8, 40, 4, 20) == ([3, 4], [19, 20])
    assert square(40, 8, 20, 4) == ([19, 20], [3, 4])


def test_at_the_border_what_lies_outside_is_not_cut():
    assert square(16, 16, 0, 15) == ([0, 1], [13, 14, 15])
    assert square(16, 16, 15, 0) == ([13, 14, 15], [0, 1])
    assert square(16, 16, 1, 8) == ([0, 1, 2], [6, 7, 8, 9])


def test_the_rest_of_an_image_is_not_touched():
    x = torch.randn(3, 3, 8, 8, generator=drawing())
    centres = torch.tensor([[0, 0], [4, 4], [7, 2]])
    before = x.clone()
    seen = cut_out(x, centres)
    assert torch.equal(x, before)
    for image, found, centre in zip(x, seen, centres.tolist(), strict=True):
        rows, columns = square(8, 8, *centre)
        expected = image.clone()
        expected[:, rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1] = 0
        assert torch.equal(found, expected)


# What is drawn


def test_crop_flip_draws_what_it_always_did():
    """And not a number more: the runs of earlier versions are as they were."""
    one, other, third = drawing(5), drawing(5), drawing(5)
    views = draw_views(50, (3, 32, 32), one)
    expected = [torch.randint(2 * 4 + 1, (50, 2), generator=other), torch.randint(2, (50, 1), generator=other)]
    assert torch.equal(views, torch.cat(expected, dim=1))
    assert torch.equal(one.get_state(), other.get_state())
    assert torch.equal(draw_views(50, (3, 32, 32), third, "crop-flip"), views)


def test_strong_begins_with_the_same_numbers():
    plain, strong = draw_views(50, (3, 16, 24), drawing(5)), draw_views(50, (3, 16, 24), drawing(5), "strong")
    assert plain.shape == (50, 3)
    assert strong.shape == (50, 8)
    assert torch.equal(strong[:, CROP], plain)


def test_strong_covers_all_there_is():
    views = draw_views(20_000, (3, 6, 9), drawing(), "strong")
    assert views[:, CUT].min(dim=0).values.tolist() == [0, 0]
    assert views[:, CUT].max(dim=0).values.tolist() == [5, 8]
    assert views[:, CUT][:, 0].bincount().min() > 0.8 * 20_000 / 6
    low, high = views[:, COLOUR].min(dim=0).values, views[:, COLOUR].max(dim=0).values
    assert low.tolist() == [SAME - JITTER] * 3
    assert high.tolist() == [SAME + JITTER] * 3
    assert (views[:, COLOUR].float().mean(dim=0) - SAME).abs().max() < 10
    # Each by itself.
    assert torch.corrcoef(views.T.float()).fill_diagonal_(0).abs().max() < 0.05


# A batch


@pytest.mark.parametrize("channels", [1, 3])
def test_a_batch_is_cropped_recoloured_normalised_and_cut(channels):
    x, old = pictures(6, channels, 8, 8), pictures(6, channels, 8, 8).flip(0)
    y, mean, std = torch.arange(6), torch.full((1, channels, 1, 1), 100.0), torch.full((1, channels, 1, 1), 50.0)
    new, replay = torch.tensor([4, 0, 2]), torch.tensor([5, 1])
    views = draw_views(5, x.shape, drawing(9), "strong")
    seen, labels = compose(x, y, old, y, mean, std, new, replay, views[:3], views[3:])
    assert labels.tolist() == [4, 0, 2, 5, 1]
    pixels = torch.cat([x[new], old[replay]])
    expected = recoloured(crop_flip(pixels, views[:, CROP]), views[:, COLOUR])
    torch.testing.assert_close(seen, cut_out(normalise(expected, mean, std), views[:, CUT]))
    assert (seen == 0).any()


def test_a_batch_without_replay_too():
    x, y, views = pictures(4, 1, 8, 8), torch.arange(4), draw_views(4, (1, 8, 8), drawing(), "strong")
    one, many = torch.zeros(1, 1, 1, 1), torch.ones(1, 1, 1, 1)
    none = torch.zeros(0, dtype=torch.int64)
    seen, _ = compose(x, y, x, y, one, many, torch.arange(4), none, views, views[:0])
    alone = cut_out(recoloured(crop_flip(x, views[:, CROP]), views[:, COLOUR]), views[:, CUT])
    torch.testing.assert_close(seen, alone)


def test_the_plan_of_an_epoch_draws_them_for_new_and_replayed():
    training = make_training(method="er", augment="strong")
    training.method.begin_task(training.tasks.task(1))
    (plan,) = plan_epoch(training.learner, 80, Mix(new=8, replay=4, stride=8))
    assert plan.new_views.shape == (10, 8, 8)
    assert plan.replay_views.shape == (10, 4, 8)
    plain = make_training(method="er", augment="crop-flip")
    plain.method.begin_task(plain.tasks.task(1))
    (usual,) = plan_epoch(plain.learner, 80, Mix(new=8, replay=4, stride=8))
    assert torch.equal(plan.new, usual.new)
    assert torch.equal(plan.replay, usual.replay)
    assert usual.new_views.shape == (10, 8, 3)


def test_shifts_stay_within_the_padding():
    for side in (2, 8, 32):
        shifts = draw_views(300, (3, side, side), drawing(), "strong")[:, :2]
        assert int(shifts.max()) == 2 * padding((3, side, side))


@pytest.mark.parametrize("method", ["finetune", "er", "tfcsr-distill"])
def test_grey_images_are_learned(method):
    runs = [trained(method=method, augment=augment, epochs=2) for augment in ("strong", "strong", "crop-flip")]
    assert runs[0].weights_sha256() == runs[1].weights_sha256() != runs[2].weights_sha256()


# A patch of another image


def test_patches_are_drawn_for_a_share_of_the_batches():
    patches = draw_patches(20_000, (3, 6, 9), drawing(), 0.25)
    top, bottom, left, right = patches.unbind(dim=1)
    assert (top >= 0).all()
    assert (left >= 0).all()
    assert (bottom <= 6).all()
    assert (right <= 9).all()
    assert (top <= bottom).all()
    assert (left <= right).all()
    area = (bottom - top) * (right - left)
    assert 0.2 < (area > 0).float().mean() < 0.25  # a small one may have no pixel
    assert area.max() == 54
    own = torch.stack([own_share(patch, (3, 6, 9)) for patch in patches[:500]])
    torch.testing.assert_close(own, 1 - area[:500] / 54)
    assert (draw_patches(100, (3, 6, 9), drawing(), 0.0) == 0).all()
    assert draw_patches(100, (3, 6, 9), drawing(), 1.0).any(dim=1).float().mean() > 0.9


def test_each_image_gets_the_patch_of_the_one_before_it_new_of_new_and_old_of_old():
    x = torch.arange(5.0)[:, None, None, None].expand(5, 1, 4, 4).contiguous()
    seen = pasted(x, torch.tensor([1, 3, 2, 4]), 3)
    inside = torch.zeros(4, 4, dtype=torch.bool)
    inside[1:3, 2:4] = True
    for image, (own, other) in zip(seen, [(0, 2), (1, 0), (2, 1), (3, 4), (4, 3)], strict=True):
        assert (image[0][inside] == other).all()
        assert (image[0][~inside] == own).all()
    assert torch.equal(pasted(x, torch.zeros(4, dtype=torch.int64), 3), x)
    assert before_it(torch.tensor([7, 8, 9, 5, 6]), 3).tolist() == [9, 7, 8, 6, 5]


@pytest.mark.parametrize("augment", ["none", "crop-flip", "strong"])
def test_the_plan_draws_patches_where_images_are_augmented(augment):
    training = make_training(method="tfcsr-distill", augment=augment, cutmix=1.0, model="tiny-bn")
    training.method.begin_task(training.tasks.task(1))
    (plan,) = plan_epoch(training.learner, 80, Mix(new=8, replay=4, stride=8))
    assert (plan.patches is None) == (augment == "none")
    if plan.patches is not None:
        assert plan.patches.shape == (10, 4)
    usual = make_training(method="tfcsr-distill", augment=augment, cutmix=0.0)
    usual.method.begin_task(usual.tasks.task(1))
    (without,) = plan_epoch(usual.learner, 80, Mix(new=8, replay=4, stride=8))
    assert without.patches is None
    assert torch.equal(plan.new, without.new)
    if augment != "none":
        assert torch.equal(plan.new_views, without.new_views)


def test_the_network_is_shown_the_patches():
    """A run with them ends elsewhere than one without; both end well."""
    fields = {"method": "tfcsr-distill", "augment": "crop-flip", "epochs": 2, "model": "tiny-bn"}
    mixed, plain = (trained(cutmix=share, **fields).weights_sha256() for share in (1.0, 0.0))
    assert mixed != plain
