"""Shards of a study."""

import pytest

from modtf.studies.grid import shard_of


@pytest.mark.parametrize("count", [1, 2, 7, 30])
def test_shards_are_a_partition_of_even_sizes(count):
    shards = [shard_of(range(20), f"{i}/{count}") for i in range(count)]
    assert sorted(item for shard in shards for item in shard) == list(range(20))
    assert max(map(len, shards)) - min(map(len, shards)) <= 1


@pytest.mark.parametrize("text", ["", "1", "2/2", "0/0", "-1/2", "a/b", "1/2/3", " 1/2"])
def test_what_is_no_shard(text):
    with pytest.raises(ValueError, match=f"--shard={text}: expected i/n"):
        shard_of("abc", text)
