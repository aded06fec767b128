import pytest

from numbawave.errors import InvalidValueError
from numbawave.survey.batches import shot_batches


@pytest.mark.parametrize("n_shots", [0, 1, 2, 7, 16, 29])
@pytest.mark.parametrize("batch_size", [1, 2, 3, 16, 100])
def test_batches_cover_every_shot_once_and_are_nearly_equal(n_shots, batch_size):
    batches = shot_batches(n_shots, batch_size)
    shots = list(range(n_shots))
    assert [shot for batch in batches for shot in shots[batch]] == shots
    sizes = [batch.stop - batch.start for batch in batches]
    assert len(sizes) == -(-n_shots // batch_size)
    assert sizes == sorted(sizes, reverse=True)
    assert not sizes or sizes[0] <= min(batch_size, sizes[-1] + 1)


@pytest.mark.parametrize(("argument", "values"), [("n_shots", (-1, 2)), ("batch_size", (3, 0))])
def test_wrong_counts_are_refused_by_name(argument, values):
    with pytest.raises(InvalidValueError, match=f"^{argument} = "):
        shot_batches(*values)
