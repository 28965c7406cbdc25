"""WebVision50 and Clothing1M in their own layouts, and the parts that are cut out of their images."""

import math

import numpy as np
import pytest
import torch
from PIL import Image

import miniature
from marvel import data as datasets
from marvel.config import Config
from marvel.data.clothing1m import drawn
from marvel.data.crops import centre, random_part
from marvel.data.images import ImageFiles, read_image
from marvel.data.views import Views
from marvel.errors import DataError
from marvel.run import Run, resolve

# ---------------------------------------------------------------------------------------------- layouts


def test_webvision50_is_the_first_fifty_classes_of_both_engines(tmp_path):
    miniature.webvision(tmp_path)
    found = datasets.listing("webvision50", tmp_path)
    train, val = found.parts["train"], found.parts["val"]
    assert len(found.classes) == 50 and found.classes[:2] == ("tench", "goldfish")
    assert found.classes[2] == "crane (n01440766)" != found.classes[3]  # two synsets of that name
    assert [id.split("/")[0] for id in train.ids] == ["google"] * 8 + ["flickr"] * 8
    assert train.y == [0, 0, 1, 1, 2, 2, 49, 49] * 2
    # Backwards in the file: 999 and 50 come first, and are none of the fifty.
    assert val.y == [49, 2, 1, 0] and val.ids[0] == "val_images_256/val000003.jpg"
    assert found.counted() == [
        "webvision50: part 'train' lists 16 instances, where 126,370 are expected",
        "webvision50: part 'val' lists 4 instances, where 2,500 are expected",
    ]


def test_webvision50_is_read(tmp_path):
    folder = miniature.webvision(tmp_path)
    (folder / "flickr" / "q0002" / "f1.jpg").unlink()
    (folder / "google" / "q0001" / "g0.jpg").write_bytes(b"no image")
    data = datasets.load("webvision50", tmp_path)
    assert isinstance(data.x, ImageFiles) and data.x.held is None and data.shape == (3, 224, 224)
    assert len(data) == 14 and data.test_y.tolist() == [49, 2, 1, 0] and data.augment == "resized-crop-flip"
    assert data.mean == (0.485, 0.456, 0.406) and data.ids[0] == "google/q0001/g1.jpg"
    assert {(one.id, one.row) for one in data.set_aside} == {("google/q0001/g0.jpg", 0), ("flickr/q0002/f1.jpg", 11)}
    assert data.origin.kind == "listed" and (folder / data.ids[3]).is_file() and data.origin.rows[0] == 1
    assert any("126,370" in note for note in data.notes)


def test_both_of_webvisions_lists_are_needed(tmp_path):
    folder = miniature.webvision(tmp_path)
    (folder / "info" / "train_filelist_flickr.txt").unlink()
    with pytest.raises(DataError, match=r"has no train_filelist_flickr.txt: WebVision50 is of Google's and Flickr's"):
        datasets.listing("webvision50", tmp_path)


def test_a_damaged_list_is_named_by_its_line(tmp_path):
    folder = miniature.webvision(tmp_path)
    path = folder / "info" / "train_filelist_google.txt"
    path.write_text(path.read_text() + "google/q0003/x.jpg\n")
    with pytest.raises(DataError, match=r"train_filelist_google.txt, line 13: expected a file and a class of 0..999"):
        datasets.listing("webvision50", tmp_path)


@pytest.mark.parametrize(("annotations", "images"), [(False, True), (True, True), (True, False)])
def test_clothing1m_by_its_keys_and_labels(tmp_path, annotations, images):
    folder = miniature.clothing1m(tmp_path, annotations=annotations, images=images)
    found = datasets.listing("clothing1m", tmp_path)
    assert {name: len(part) for name, part in found.parts.items()} == {"train": 42, "val": 14, "test": 14}
    assert found.classes[0] == "T-Shirt" and found.classes[13] == "Underwear" and found.test == "test"
    assert found.parts["train"].y == [k % 14 for k in range(42)]
    assert all(path.is_file() for part in found.parts.values() for path in part.paths)
    assert found.parts["train"].paths[5] == folder / ("images/5/05" if images else "5/05") / "noisy_train5,5.jpg"
    assert found.expected == {"train": 1_000_000, "val": 14_313, "test": 10_526}


def test_a_key_without_a_label_is_named(tmp_path):
    folder = miniature.clothing1m(tmp_path)
    path = folder / "clean_label_kv.txt"
    path.write_text("\n".join(path.read_text().splitlines()[1:]))
    with pytest.raises(DataError, match=r"no label for 1 of the 14 images that clean_val_key_list.txt lists"):
        datasets.listing("clothing1m", tmp_path)


def test_clothing100k_is_the_archive_where_it_is_there(tmp_path):
    miniature.clothing1m(tmp_path)
    miniature.archive(tmp_path, "clothing100k", ("train", "val", "test"), classes=14)
    found = datasets.listing("clothing100k", tmp_path)
    assert found.folder == tmp_path / "clothing100k" and found.test == "test" and found.augment == "resized-crop-flip"
    assert found.expected == {"train": 100_000, "val": 14_313, "test": 10_526}
    data = datasets.load("clothing100k", tmp_path, size=32)
    assert len(data) == 56 and len(data.test_y) == 56 and data.origin.kind == "folder" and data.origin.part == "train"


def test_clothing100k_is_else_a_draw_with_a_seed_that_is_said(tmp_path):
    miniature.clothing1m(tmp_path)
    whole = datasets.listing("clothing1m", tmp_path)
    part = drawn(whole, 10)
    assert part.parts["train"].ids == drawn(whole, 10).parts["train"].ids != drawn(whole, 10, 1).parts["train"].ids
    places = [whole.parts["train"].ids.index(id) for id in part.parts["train"].ids]
    assert places == sorted(set(places)) and len(places) == 10
    assert [whole.parts["train"].y[place] for place in places] == part.parts["train"].y
    assert "10 of 42 training images, drawn with seed 0" in part.notes[0]
    with pytest.raises(DataError, match="too few to draw 100,000"):
        datasets.listing("clothing100k", tmp_path)


def test_webvision50_as_class_folders(tmp_path):
    miniature.archive(tmp_path, "webvision50", ("train", "val"))
    data = datasets.load("webvision50", tmp_path, size=16)
    assert len(data) == 12 and len(data.test_y) == 12 and data.shape == (3, 16, 16)


@pytest.mark.parametrize("name", ["webvision50", "clothing100k", "clothing1m"])
def test_what_is_not_there_is_said_with_where_to_get_it(tmp_path, name):
    with pytest.raises(DataError, match=r"not found: looked for .*--root or MARVEL_DATA names the folder"):
        datasets.load(name, tmp_path)


# ---------------------------------------------------------------------------------------------- parts of images


def test_a_part_is_what_cutting_and_scaling_gives(tmp_path):
    rng = np.random.default_rng(0)
    smooth = Image.fromarray(rng.integers(0, 255, (6, 8, 3), dtype=np.uint8)).resize((80, 60), Image.Resampling.BICUBIC)
    smooth.save(tmp_path / "x.png")
    box = (13, 7, 53, 51)
    ours = read_image(tmp_path / "x.png", 16, lambda width, height: box)
    theirs = np.asarray(smooth.crop(box).resize((16, 16), Image.Resampling.BILINEAR)).transpose(2, 0, 1)
    # At its rim a part knows its neighbours, and a cut-out image does not.
    assert np.abs(ours.numpy().astype(int) - theirs)[:, 2:-2, 2:-2].max() <= 1


def test_a_tested_image_is_the_middle_of_one_of_eight_sevenths(tmp_path):
    rng = np.random.default_rng(0)
    smooth = Image.fromarray(rng.integers(0, 255, (6, 8, 3), dtype=np.uint8)).resize(
        (400, 300), Image.Resampling.BICUBIC
    )
    smooth.save(tmp_path / "x.png")
    whole = smooth.resize((round(256 * 400 / 300), 256), Image.Resampling.BILINEAR)
    left = (whole.width - 224) // 2
    theirs = np.asarray(whole.crop((left, 16, left + 224, 240))).transpose(2, 0, 1).astype(int)
    ours = read_image(tmp_path / "x.png", 224, centre).numpy().astype(int)
    assert np.abs(ours - theirs)[:, 3:-3, 3:-3].mean() < 1.5  # half a pixel's shift, and rounding


def test_a_large_jpeg_is_decoded_small_and_looks_the_same(tmp_path):
    rng = np.random.default_rng(0)
    small = Image.fromarray(rng.integers(0, 255, (6, 8, 3), dtype=np.uint8))
    large = small.resize((1000, 750), Image.Resampling.BICUBIC)
    large.save(tmp_path / "x.jpg", quality=95)
    large.save(tmp_path / "x.png", compress_level=1)
    for seed in range(5):
        jpeg, png = (read_image(tmp_path / f"x.{kind}", 64, random_part(seed, 3)) for kind in ("jpg", "png"))
        assert (jpeg.float() - png.float()).abs().mean() < 3


def test_a_photograph_is_turned_before_it_is_cut(tmp_path):
    pixels = np.zeros((20, 60, 3), np.uint8)
    pixels[:, :30] = 255  # the left half is white; turned by 90 degrees it is the top
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(pixels).save(tmp_path / "x.jpg", exif=exif, quality=95)
    top = read_image(tmp_path / "x.jpg", 8, lambda width, height: (0, 0, width, height / 3))
    assert (top > 250).all()


def test_random_parts_follow_the_bounds_and_the_seed():
    boxes = [random_part(7, index)(500, 375) for index in range(2000)]
    assert boxes[:5] == [random_part(7, index)(500, 375) for index in range(5)]
    assert boxes[0] != random_part(8, 0)(500, 375) and len(set(boxes)) > 1990
    across, down = (np.array([box[2 + k] - box[k] for box in boxes]) for k in (0, 1))
    left, top = np.array([box[:2] for box in boxes]).T
    assert left.min() >= 0 and top.min() >= 0 and (left + across).max() <= 500 and (top + down).max() <= 375
    area, ratio = across * down / (500 * 375), across / down
    assert 0.078 < area.min() < 0.1 and area.max() > 0.95
    assert 0.74 < ratio.min() < 0.76 and 1.32 < ratio.max() < 1.35
    # Another sampler of the same rule: uniform area, log-uniform ratio, drawn again where it is too large.
    rng = np.random.default_rng(0)
    theirs = []
    while len(theirs) < 2000:
        a, r = rng.uniform(0.08, 1), math.exp(rng.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = math.sqrt(a * 500 * 375 * r), math.sqrt(a * 500 * 375 / r)
        theirs += [a] if w <= 500 and h <= 375 else []
    assert abs(area.mean() - np.mean(theirs)) < 4 * np.std(theirs) / math.sqrt(1000)


def test_a_very_long_image_has_parts_too():
    left, top, right, bottom = random_part(0, 0)(1000, 4)
    assert 0 <= left < right <= 1000 and (top, bottom) == (0, 4)


def test_the_view_flips_what_the_worker_cut():
    x = torch.randint(0, 255, (4, 3, 6, 6), dtype=torch.uint8)
    views = Views((0.5,) * 3, (0.2,) * 3, "resized-crop-flip", (3, 6, 6))
    assert views.weak_uniforms == 1
    out = views.weak(x, torch.tensor([[0.1], [0.9], [0.49], [0.5]]))
    plain = views.plain(x)
    assert torch.equal(out[[1, 3]], plain[[1, 3]]) and torch.equal(out[[0, 2]], plain[[0, 2]].flip(-1))


# ---------------------------------------------------------------------------------------------- training


def settings(root, **changes) -> Config:
    return Config(
        data="webvision50", root=str(root), size=16, network="cnn2", epochs=3, batch=8, lr=0.01, device="cpu",
        options={"warmup": 1, "wait": 2},
    ).but(**changes)  # fmt: skip


def state(run: Run) -> torch.Tensor:
    for _ in run.steps():
        pass
    return torch.cat([p.detach().flatten() for p in run.networks[0].parameters()])


def test_parts_follow_from_the_seed_whoever_cuts_them(tmp_path):
    miniature.webvision(tmp_path, labels=(0, 1, 2), each=4)
    alone, helped, other = (
        state(Run(settings(tmp_path, **changes)))
        for changes in ({"workers": 0}, {"workers": 1}, {"workers": 0, "seed": 1})
    )
    assert torch.equal(alone, helped) and not torch.equal(alone, other)


def test_every_epoch_sees_other_parts(tmp_path, monkeypatch):
    miniature.webvision(tmp_path, labels=(0, 1, 2), each=4)
    seeds, cut = [], ImageFiles.part

    def noted(images: ImageFiles, index: int, seed: int) -> torch.Tensor:
        seeds.append((seed, index))
        return cut(images, index, seed)

    monkeypatch.setattr(ImageFiles, "part", noted)
    state(Run(settings(tmp_path, workers=0)))
    assert len(seeds) == 3 * 24 == len(set(seeds)) and len({seed for seed, _ in seeds}) == 3


def test_an_interrupted_run_sees_the_parts_it_would_have_seen(tmp_path):
    miniature.webvision(tmp_path, labels=(0, 1, 2), each=4)
    whole = state(Run(settings(tmp_path, workers=0)))
    cut = Run(settings(tmp_path, workers=0), tmp_path / "run").steps()
    for shown in cut:
        if shown is not None and shown.epoch == 2:
            break
    cut.close()
    assert torch.equal(state(Run(settings(tmp_path, workers=0), tmp_path / "run", resume=True)), whole)


def test_the_preset_is_the_papers(tmp_path):
    miniature.webvision(tmp_path)
    data = datasets.load("webvision50", tmp_path)
    asked = resolve(Config(data="webvision50", root=str(tmp_path)), data)
    assert (asked.network, asked.epochs, asked.lr, asked.drops) == ("resnet50", 160, 0.1, (120, 140))
    assert asked.options == {"warmup": 50} and asked.source == "streamed"
