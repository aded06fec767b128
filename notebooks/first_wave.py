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
# # A first wave and its gradient
#
# We send a wave through a simple piece of ground, watch it travel, and record it. Then we ask the question
# behind every inversion: *if the ground were a little faster here, how would the record change?* The gradient
# answers it for all cells at once. At the end we check it against plain finite differences.
#
# The first call of each kind takes a few seconds, because Numba compiles its code. After that a wave takes a
# fraction of a second, also the next time you open this notebook.

# %%
import os

import matplotlib.pyplot as plt
import numpy as np
import torch

import numbawave

small = os.environ.get("NUMBAWAVE_NOTEBOOK_SIZE") == "small"  # coarser and quicker, for automatic tests
coarse = 2 if small else 1

# %% [markdown]
# ## 1. The ground
#
# A model is a grid of wave speeds in m/s, with depth first: `v[z, x]`. Ours has a dipping boundary between slow
# rock above and fast rock below. We compute in float64: the check at the end needs the digits.

# %%
spacing = 10.0 * coarse  # m
n_z, n_x = 100 // coarse, 160 // coarse
z, x = torch.meshgrid(
    (torch.arange(n_z, dtype=torch.float64) + 0.5) * spacing,  # depth of each cell's centre, m
    (torch.arange(n_x, dtype=torch.float64) + 0.5) * spacing,
    indexing="ij",
)
v = torch.where(z < 450.0 + 0.15 * x, 2000.0, 3000.0).to(torch.float64)
extent = (0.0, n_x * spacing, n_z * spacing, 0.0)  # of pictures: left, right, bottom, top, m

# %% [markdown]
# ## 2. A source, receivers, and one call
#
# The source is a Ricker wavelet: one short pulse with a peak frequency. Sources and receivers stand on cells;
# `numbawave.cell` finds the cell of a position in metres. Every array begins with a `shot` axis, because many
# shots can run in one call; here there is one.

# %%
frequency = 14.0 / coarse  # Hz
dt = 0.001 * coarse  # s
nt = round(0.9 / dt)  # 0.9 s
wavelet = numbawave.wavelets.ricker(frequency, nt, dt, peak_time=1.5 / frequency, dtype=torch.float64)

source = torch.as_tensor(numbawave.cell([[[20.0, 500.0]]], spacing))  # [shot, source, axis]
receivers = torch.tensor([[[source[0, 0, 0], across] for across in range(n_x)]])  # [shot, receiver, axis]

settings = {"max_vel": 3200.0, "pml_freq": frequency}  # explained in section 4
out = numbawave.scalar(
    v,
    spacing,
    dt,
    source_amplitudes=wavelet.reshape(1, 1, -1),  # [shot, source, time]
    source_locations=source,
    receiver_locations=receivers,
    **settings,
)
record = out.receiver_amplitudes  # [shot, receiver, time]
print("record", tuple(record.shape), "   last wavefield", tuple(out.wavefield_0.shape))

# %% [markdown]
# The record of all receivers side by side is called a *gather*. The straight lines are the direct wave, which
# runs along the surface. The curve below it is the echo from the boundary. Its top is left of the source: the
# boundary rises to the left, and the shortest way to a slope meets it at a right angle.


# %%
def draw_field(axes, field, title, limit):
    """Draw a wavefield or a kernel [z, x], blue to red from -limit to limit."""
    frame = (field.shape[0] - n_z) / 2 * spacing  # what lies around the ground, see section 4
    around = (-frame, extent[1] + frame, extent[2] + frame, -frame)
    image = axes.imshow(field, extent=around, cmap="RdBu_r", vmin=-limit, vmax=limit)
    axes.set(title=title, xlabel="x (m)", ylabel="depth (m)")
    return image


figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
image = left.imshow(v, extent=extent, cmap="viridis")
left.plot(x[0, source[0, 0, 1]], z[source[0, 0, 0], 0], "r*", markersize=14, label="source")
left.plot(x[0, ::8], z[receivers[0, ::8, 0], 0], "wv", markersize=6, markeredgecolor="k", label="receivers (some)")
left.set(title="the ground", xlabel="x (m)", ylabel="depth (m)")
left.legend(loc="lower left")
figure.colorbar(image, ax=left, label="wave speed (m/s)", shrink=0.8)
loudness = record.abs().quantile(0.96)
right.imshow(record[0].T, extent=(0, n_x * spacing, nt * dt, 0), cmap="gray", vmin=-loudness, vmax=loudness, aspect="auto")
right.set(title="the gather", xlabel="receiver's x (m)", ylabel="time (s)")
plt.show()

# %% [markdown]
# ## 3. Watching the wave
#
# A call returns the wavefield at its end, and `initial_state` goes on from there. So snapshots are a run in
# pieces. A run in pieces gives *exactly* the record of the run in one go, which we check.

# %%
pieces, snapshots, state = 6, [], None
for part in wavelet.chunk(pieces):
    piece = numbawave.scalar(
        v,
        spacing,
        dt,
        source_amplitudes=part.reshape(1, 1, -1),
        source_locations=source,
        receiver_locations=receivers,
        initial_state=state,
        **settings,
    )
    state = piece.final_state
    snapshots.append((piece.wavefield_0[0], piece.receiver_amplitudes))

assert torch.equal(torch.cat([part for _, part in snapshots], dim=-1), record)

figure, panels = plt.subplots(2, 3, figsize=(12, 5.6), layout="constrained", sharex=True, sharey=True)
elapsed = 0.0
for axes, (field, part) in zip(panels.flat, snapshots, strict=True):
    elapsed += part.shape[-1] * dt
    axes.contour(x, z, v, levels=[2500.0], colors="k", linewidths=0.8)
    axes.add_patch(plt.Rectangle((0, 0), extent[1], extent[2], fill=False, linestyle="dotted"))
    image = draw_field(axes, field, f"{elapsed:.2f} s", limit=0.5 * snapshots[2][0].abs().max())
    axes.label_outer()
figure.colorbar(image, ax=panels, label="wavefield (arbitrary units)", shrink=0.7)
plt.show()

# %% [markdown]
# Look at the boundary (black): part of the wave comes back, part goes through and is stretched, since the same
# oscillation covers more ground where waves are fast. And look at the edges of the ground (dotted): the wave
# leaves and nothing comes back. Around the ground lies a frame that swallows waves. The wavefield of a result
# contains it, so here you can watch them fade in it.
#
# ## 4. What really ran
#
# `out.info` says what was computed.

# %%
for name in ("step_ratio", "internal_dt", "accuracy", "pml_width", "pml_freq", "max_vel", "dtype", "backend"):
    print(f"{name:12} {getattr(out.info, name)}")

# %% [markdown]
# * `pml_width`: cells of that frame, the *perfectly matched layer* (PML), at each face. It works best near the
#   frequency `pml_freq`. Both are chosen for you if you say nothing.
# * `accuracy`: the order of the finite differences in space.
# * `internal_dt`: in one time step a wave may cross only part of a cell, or the numbers blow up. If your `dt` is
#   too long for the fastest speed, `max_vel`, each step is cut into `step_ratio` sub-steps. You still get your
#   own time axis.
#
# We fix `max_vel` and `pml_freq` ourselves because we are about to change the model. Otherwise the frame would
# change with it, and we would compare two different experiments.
#
# Four times the step gives the same record at every fourth sample, because the sub-steps are the old steps. Going
# from one time axis to the other treats a record as if it repeated itself, so the two differ a little where it
# is cut off while waves still arrive, at its end and, once repeated, at its start:

# %%
long = numbawave.scalar(
    v,
    spacing,
    4 * dt,
    source_amplitudes=wavelet[::4].reshape(1, 1, -1),
    source_locations=source,
    receiver_locations=receivers,
    **settings,
)
fourth = record[..., ::4]
difference = (long.receiver_amplitudes - fourth).square().sum((0, 1)).sqrt() / fourth.norm()  # [time]
n_ends = len(difference) // 10
middle, ends = difference[n_ends:-n_ends].norm(), torch.cat([difference[:n_ends], difference[-n_ends:]]).norm()
print(f"step_ratio {long.info.step_ratio}; the records differ by {middle:.1e} of their size in the middle,")
print(f"and by {ends:.1e} in the first and last tenth of the time")

# %% [markdown]
# ## 5. The gradient
#
# Now the other direction. Somewhere in uniform rock of 2000 m/s hides a slow lens. We know only the record of
# the true ground, `observed`, and the record of our guess without the lens. The *misfit* is half the sum of
# their squared differences, one number. Its gradient says, for every cell, by how much the misfit changes if that
# cell becomes 1 m/s faster.
#
# `backward()` computes it for all cells with about the work of two more waves. Finite differences would need
# one wave for each of the cells.

# %%
guess = torch.full((n_z, n_x), 2000.0, dtype=torch.float64)
lens = torch.exp(-((x - 800.0) ** 2 + (z - 500.0) ** 2) / 120.0**2)  # 1 in its middle
true = guess - 150.0 * lens


def propagate(model, source_depths, receiver_depths):
    """Records [shot, receiver, time] of sources at the left edge, one a shot, and receivers at the right."""
    shots = [[[depth, 60.0]] for depth in source_depths]  # m
    line = [[depth, n_x * spacing - 60.0] for depth in receiver_depths]
    return numbawave.scalar(
        model,
        spacing,
        dt,
        source_amplitudes=wavelet.repeat(len(shots), 1, 1),
        source_locations=torch.as_tensor(numbawave.cell(shots, spacing)),
        receiver_locations=torch.as_tensor(numbawave.cell([line] * len(shots), spacing)),
        **settings,
    ).receiver_amplitudes


def misfit(model, observed, *survey):
    """Half the squared difference between predicted and observed records."""
    return 0.5 * (propagate(model, *survey) - observed).square().sum()


def gradient_of_misfit(*survey):
    """The gradient [z, x] of the misfit at the guess."""
    model = guess.clone().requires_grad_()
    misfit(model, propagate(true, *survey), *survey).backward()
    return model.grad


one_pair = ([500.0], [500.0])
many_pairs = (np.linspace(100.0, 900.0, 5).tolist(), np.linspace(40.0, 960.0, 47 // coarse).tolist())
kernel, gradient = gradient_of_misfit(*one_pair), gradient_of_misfit(*many_pairs)

figure, panels = plt.subplots(1, 2, figsize=(12, 4), layout="constrained", sharey=True)
for axes, field, title, (from_depths, to_depths) in zip(
    panels,
    (kernel, gradient),
    ("one source, one receiver", "5 sources, many receivers"),
    (one_pair, many_pairs),
    strict=True,
):
    image = draw_field(axes, field, title, limit=field[:, n_x // 6 : -n_x // 6].abs().max())
    axes.contour(x, z, lens, levels=[0.5], colors="k", linestyles="dashed")
    axes.plot([60.0] * len(from_depths), from_depths, "k*", markersize=11)
    axes.plot([n_x * spacing - 60.0] * len(to_depths), to_depths, "kv", markersize=4)
    figure.colorbar(image, ax=axes, label="gradient (misfit per m/s)", shrink=0.7)
panels[1].set_ylabel("")
plt.show()

# %% [markdown]
# Left, the *sensitivity kernel* of a single record. A ray would be a thin line, but a wave of finite length feels
# a wide zone around the line, with rings of the opposite sign: waves that take a detour through a ring arrive
# half a period late. This record cannot tell where on its way the lens lies (dashed).
#
# Right, the kernels of many pairs added up. They agree best around the lens, smeared sideways because all the
# waves pass from left to right. The gradient is positive there: faster rock would make the misfit worse, so an
# inversion makes it slower, which is right. The next notebook, *Inverting a section*, walks down such gradients.
#
# ## 6. Is the gradient right?
#
# Take a direction to change the model in: the lens shape, 1 m/s at its middle. The gradient predicts how
# the misfit changes along it: the sum of gradient times direction. The definition of a derivative needs no theory:
#
# $$\frac{J(v + \epsilon p) - J(v - \epsilon p)}{2 \epsilon}$$
#
# It is wrong by something that shrinks as $\epsilon^2$: ten times smaller $\epsilon$, a hundred times smaller
# error. Only at the end rounding takes over, as two almost equal numbers are subtracted.

# %%
observed = propagate(true, *one_pair)
direction = lens
predicted = (kernel * direction).sum().item()
errors = []
print("    epsilon    finite difference    from the gradient    relative difference")
for epsilon in (10.0, 1.0, 0.1, 0.01):  # m/s
    ahead = misfit(guess + epsilon * direction, observed, *one_pair)
    behind = misfit(guess - epsilon * direction, observed, *one_pair)
    difference = ((ahead - behind) / (2.0 * epsilon)).item()
    errors.append(abs(difference / predicted - 1.0))
    print(f"{epsilon:7.2f} m/s {difference:20.10e} {predicted:20.10e} {errors[-1]:22.1e}")

# %% [markdown]
# Had the gradient been wrong, even by a millionth, the last column would have stopped there. That is our check:

# %%
assert errors[0] / errors[1] > 50.0, "the error must shrink about a hundredfold with a tenfold smaller epsilon"
assert min(errors) < 1e-7, "finite differences and the gradient must agree"
print(f"The gradient is right: finite differences agree with it to {min(errors):.0e}.")

# %% [markdown]
# ## 7. A look inside
#
# Nobody wrote the code that ran. The equation is one page of physics, `numbawave/equations/scalar.py`, and its
# loops, its absorbing layer and its gradient are derived from that page and printed as Python, which Numba
# compiles. You can read it. Look for the line that begins `wavefield_next[i] =`: that is the wave equation.

# %%
text = numbawave.kernel_source("scalar", ndim=2, dtype="float64", gradient=False)
print("\n".join(line[:110] for line in text.splitlines()[20:50]))

# %% [markdown]
# ## To try
#
# * Put the lens nearer to the receiver. How does the kernel change?
# * Halve `frequency`. The kernel gets wider: long waves see less detail. (Section 6 still holds.)
# * Call with `pml_width=0` in section 3 and watch the echoes from the edges.
