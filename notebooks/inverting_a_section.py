# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3 (ipykernel)
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Inverting a section
#
# Ships record echoes from below the sea floor. Full-waveform inversion turns such records into a map of wave
# speed: guess a map, compute the records it would give, compare, and change the map so that they agree better.
# We do it here in plain PyTorch, step by step, on a section that we invent, so that we can see how close we get.
#
# *A first wave and its gradient* explains the call that propagates waves.

# %%
import os

import matplotlib.pyplot as plt
import torch

import numbawave
from numbawave.apps.low_pass import end_fade, low_pass, sampling_stride
from numbawave.apps.models import layered_model
from numbawave.apps.report import illuminated, relative_error
from numbawave.apps.smoothing import blur, smooth, water_layer

small = os.environ.get("NUMBAWAVE_NOTEBOOK_SIZE") == "small"  # coarser and quicker, for automatic tests
coarse = 2 if small else 1

# %% [markdown]
# ## 1. The truth, and where we start
#
# The built-in generator lays down sediments, folds, tilts and faults them, and covers them with water. Another
# seed is another place. What we pretend to know is a heavily blurred version of it, and the water: its depth
# and speed are easy to measure from a ship.

# %%
spacing = 30.0 * coarse  # m
shape = (40 // coarse, 110 // coarse)  # cells in depth and across
true = torch.from_numpy(layered_model(shape, (spacing, spacing), seed=7, salt=False))  # m/s, [z, x]
water = water_layer(true, 1500.0)
start = smooth(true, [180.0 / spacing] * 2, water)

# %% [markdown]
# ## 2. The experiment
#
# Seven shots along the surface, and a receiver at every second cell. All shots are one call: the first axis of
# each array is the shot.

# %%
n_shots = 7
frequency = 6.0 / coarse  # Hz, where the source is strongest
dt = 0.003 * coarse  # s
nt = round(1.7 / dt)
bounds = (1400.0, 4000.0)  # m/s, between which the answer must lie
wavelet = numbawave.wavelets.ricker(frequency, nt, dt, peak_time=1.8 / frequency)

across = torch.linspace(2, shape[1] - 3, n_shots).round().long()
shots = torch.stack([torch.ones_like(across), across], dim=-1)[:, None]  # [shot, source, axis]
line = torch.arange(1, shape[1] - 1, 2)
receivers = torch.stack([torch.ones_like(line), line], dim=-1).expand(n_shots, -1, -1)  # [shot, receiver, axis]


def propagate(v, source, stride=1):
    """Records [shot, receiver, time] of all shots; the gradient sums every stride-th time step."""
    return numbawave.scalar(
        v,
        spacing,
        dt,
        source_amplitudes=source.expand(n_shots, 1, -1),
        source_locations=shots,
        receiver_locations=receivers,
        max_vel=bounds[1],  # fixed, like pml_freq: the experiment must not change with the model
        pml_freq=frequency,
        pml_width=14,
        model_gradient_sampling_interval=stride,
    ).receiver_amplitudes


observed = propagate(true, wavelet)
expected = propagate(start, wavelet)
print(f"{n_shots} shots, {len(line)} receivers, {nt} time steps")

# %% [markdown]
# The middle shot, as observed and as the start predicts it. The strong straight lines are the wave through the
# water. Nearly all echoes are missing on the right, because a smooth ground has no sharp boundaries.


# %%
def draw_section(axes, values, title, limits, colours="viridis"):
    """Draw a section [z, x] with its axes in km."""
    edges = (0.0, shape[1] * spacing / 1000, shape[0] * spacing / 1000, 0.0)
    image = axes.imshow(values, extent=edges, cmap=colours, vmin=limits[0], vmax=limits[1])
    axes.set(title=title, xlabel="x (km)", ylabel="depth (km)")
    return image


def draw_gather(axes, gather, title, loudest):
    """Draw a gather [receiver, time] in grey."""
    edges = (line[0] * spacing / 1000, line[-1] * spacing / 1000, nt * dt, 0.0)
    axes.imshow(gather.T, extent=edges, cmap="gray", vmin=-loudest, vmax=loudest, aspect="auto")
    axes.set(title=title, xlabel="receiver's x (km)", ylabel="time (s)")


speeds = (1500.0, true.max().item())
middle = n_shots // 2
loudest = observed[middle].abs().quantile(0.93).item()

figure, panels = plt.subplots(2, 2, figsize=(12, 6.5), layout="constrained")
for axes, model, title in zip(panels[0], (true, start), ("the truth", "the start"), strict=True):
    image = draw_section(axes, model, title, speeds)
panels[0, 0].plot((across + 0.5) * spacing / 1000, [1.5 * spacing / 1000] * n_shots, "r*", markersize=9)
figure.colorbar(image, ax=panels[0], label="wave speed (m/s)")
draw_gather(panels[1, 0], observed[middle], "observed", loudest)
draw_gather(panels[1, 1], expected[middle], "predicted by the start", loudest)
plt.show()

# %% [markdown]
# ## 3. Low frequencies first
#
# If a predicted oscillation is off by more than half a period, the nearest match is the *wrong* oscillation, and
# an inversion that walks downhill gets stuck there. This is called cycle skipping. Long periods forgive a poor
# start, short ones give detail. So we invert in two stages: first everything below a low corner frequency, then
# more. Source and records pass through the same filter.

# %%
stages = [(4.0 / coarse, 12), (8.0 / coarse, 26)]  # corner (Hz), misfits and gradients computed

seconds = torch.arange(nt) * dt
figure, axes = plt.subplots(figsize=(8, 2.6), layout="constrained")
axes.plot(seconds, wavelet, color="0.6", label="source")
for corner, _ in stages:
    axes.plot(seconds, low_pass(wavelet, dt, corner), label=f"below {corner:g} Hz")
axes.set(xlim=(0.0, 4.0 / frequency), xlabel="time (s)", ylabel="amplitude")
axes.legend()
plt.show()

# %% [markdown]
# ## 4. Walking downhill
#
# The unknown is `update`, added to the base model of a stage. A blur keeps it free of detail that the waves of
# this stage cannot see, the water stays as it is, and the bounds hold. PyTorch differentiates through all of
# this, and through the wave propagation too: `numbawave.scalar` is a function like any other.
#
# L-BFGS is an optimiser that learns from successive gradients how the misfit curves, and so knows how far to go.
# Only its first step must be given a length: we scale the misfit so that it changes no cell by more than 30 m/s.
# After that it asks for misfits and gradients as often as it likes, by calling `closure`.


# %%
def updated(base, update, width):
    """The model of a base and an update, blurred by width (cells)."""
    smoothed = blur(update, [width, width])
    return torch.where(water, base, (base + smoothed).clamp(*bounds))


def run_stage(base, corner, tries):
    """Walk downhill on all frequencies below a corner (Hz); returns the model and the misfit of each try."""
    source, fade = low_pass(wavelet, dt, corner), end_fade(nt, dt, corner, wavelet.dtype)
    target = low_pass(observed, dt, corner) * fade  # the filter is not exact at the cut end of a record
    stride, width = sampling_stride(dt, corner), stages[-1][0] / corner
    update = torch.zeros_like(base, requires_grad=True)
    losses = []

    def closure():
        update.grad = None
        predicted = propagate(updated(base, update, width), source, stride) * fade
        misfit = scale * 0.5 * (predicted - target).square().sum()
        misfit.backward()
        losses.append(misfit.item() / scale)
        return misfit.detach()

    scale = 1.0
    closure()
    scale = 30.0 / update.grad.abs().max().item()
    optimiser = torch.optim.LBFGS([update], max_iter=1, line_search_fn="strong_wolfe")
    group = optimiser.param_groups[0]
    # torch shortens the first step by the sum of the gradient, so we lengthen it by the same
    group["lr"] = scale * update.grad.abs().sum().item()
    optimiser.step(closure)
    group |= {"lr": 1.0, "max_iter": tries, "max_eval": tries - len(losses)}
    optimiser.step(closure)
    return updated(base, update.detach(), width), losses


models, losses = [start], []
for corner, tries in stages:
    model, fell = run_stage(models[-1], corner, tries)
    models.append(model)
    losses.append(fell)
    print(f"below {corner:g} Hz: the misfit fell to {fell[-1] / fell[0]:.0%} of its first in {len(fell)} tries")

# %% [markdown]
# ## 5. What came out
#
# First the map, after each stage. Then the change, beside the change that would have been right.

# %%
figure, panels = plt.subplots(2, 2, figsize=(12, 5.6), layout="constrained", sharex=True, sharey=True)
titles = ["the start", *(f"after the stage below {corner:g} Hz" for corner, _ in stages), "the truth"]
for axes, model, title in zip(panels.flat, [*models, true], titles, strict=True):
    image = draw_section(axes, model, title, speeds)
    axes.label_outer()
figure.colorbar(image, ax=panels, label="wave speed (m/s)")
plt.show()

# %%
figure, panels = plt.subplots(1, 2, figsize=(12, 2.9), layout="constrained", sharey=True)
largest = (true - start).abs().quantile(0.99).item()
for axes, change, title in zip(panels, (models[-1] - start, true - start), ("our change", "the right change"), strict=True):
    image = draw_section(axes, change, title, (-largest, largest), "RdBu_r")
    axes.label_outer()
figure.colorbar(image, ax=panels, label="change of speed (m/s)")
plt.show()

# %% [markdown]
# Then the records: echoes that the start could not predict are now there.

# %%
found = propagate(models[-1], wavelet)
figure, panels = plt.subplots(1, 3, figsize=(13, 3.8), layout="constrained", width_ratios=(1, 1, 1.1))
draw_gather(panels[0], observed[middle], "observed", loudest)
draw_gather(panels[1], found[middle], "predicted by the result", loudest)
first = 1
for (corner, _), fell in zip(stages, losses, strict=True):
    panels[2].plot(
        range(first, first + len(fell)), [100 * loss / fell[0] for loss in fell], ".-", label=f"below {corner:g} Hz"
    )
    first += len(fell)
panels[2].set(title="misfit", xlabel="try", ylabel="% of the stage's first", ylim=(0, None))
panels[2].legend()
plt.show()

# %% [markdown]
# ## 6. How much closer are we?
#
# The model error is the root mean square of the difference from the truth, over that of the truth. We measure it
# where waves pass: below the water, but not at the outer tenth of each side nor in the lowest tenth.
#
# A lower misfit alone proves nothing about the map, since different maps can give similar records. Here we
# know the truth and can look.

# %%
inside = illuminated(water)
errors = [relative_error(model[inside], true[inside]) for model in models]
fall = 1.0 - errors[-1] / errors[0]
print("model error:", " -> ".join(f"{error:.2%}" for error in errors), f"  it fell by {fall:.0%}")

wanted = 0.1 if small else 0.25  # half the frequency, as in the small run, shows less detail
assert fall > wanted, f"the model error must fall by {wanted:.0%}"

# %% [markdown]
# ## To try
#
# * Leave out the first stage. Then also blur the start more, say by 500 m. When does it get stuck?
# * Add noise to `observed`. How much can the inversion bear?
# * Set `salt=True`. Why is salt so hard?
#
# `numbawave fwi` does all this from the command line, in 2-D and 3-D, with other optimisers and misfits, and goes
# on where it was stopped.
