"""The rows of `generate()` are recorded as documents, each up to its end."""

import copy

import numpy as np
import pytest
from every_family import make_family
from small_models import make, read, torch, transformers

import modtf

TOKENS = torch.randint(3, 40, (3, 6), generator=torch.Generator().manual_seed(0))
CHOSEN = [
    [20, 7, 22],
    [21, 9, 23],
    [24, 25, 26],
    [30, 31, 32],
    [33, 34, 35],
]  # steps x rows; row 1 ends with 7
END, PAD = 7, 0


class Chooser(transformers.LogitsProcessor):
    """A processor that makes `generate()` choose these tokens, whatever the model says."""

    def __init__(self, chosen=CHOSEN):
        self.following = iter(chosen)

    def __call__(self, input_ids, scores):
        return torch.nn.functional.one_hot(torch.tensor(next(self.following)), scores.shape[-1]) * 100.0


def words():
    """A tokenizer whose token 7 is "07"."""
    tokenizers = pytest.importorskip("tokenizers")
    numbers = {**{f"{token:02}": token for token in range(40)}, "abcdef": 40}
    model = tokenizers.models.WordLevel(numbers, unk_token="00")
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizers.Tokenizer(model))


class Ends(transformers.StoppingCriteria):
    def __call__(self, input_ids, scores, **kwargs):
        return input_ids[:, -1] == END


def generate(model, tokens=TOKENS, steps=5, **options):
    options = {"max_new_tokens": steps, "logits_processor": [Chooser()], "pad_token_id": PAD, **options}
    return model.generate(tokens, attention_mask=torch.ones_like(tokens), **options)


def saved(recorder, path):
    """The saved tokens of each document."""
    found = read(recorder.save(path))
    documents = found["documents"]
    return [found["tokens"][documents == one].tolist() for one in range(documents.max() + 1)]


@pytest.mark.parametrize(
    "options",
    [
        {"eos_token_id": END},
        {"generation_config": transformers.GenerationConfig(eos_token_id=[5, END], max_new_tokens=5)},
        {"stop_strings": ["07"], "tokenizer": words()},
        {"stop_strings": ["07"], "tokenizer": words(), "eos_token_id": 5},
        {"stopping_criteria": [Ends()]},
    ],
    ids=["argument", "config", "strings", "strings and end", "criteria"],
)
def test_what_follows_the_end_of_a_row_is_not_recorded(options, tmp_path):
    """The recorder cannot see the ends in the model's own configuration."""
    model = make("Mixtral").eval()
    with modtf.record(model) as recorder:
        whole = generate(model, **options)
    rows = whole[:, :-1].tolist()  # the last token is never fed
    assert saved(recorder, tmp_path / "x") == [rows[0], rows[1][:7], rows[2]]


def test_a_token_that_ends_no_row_is_recorded_like_others(tmp_path):
    """The model's configuration says that token 7 is the end, but this call of `generate()` has no end."""
    model = make("Mixtral").eval()
    model.generation_config.eos_token_id = END
    with modtf.record(model) as recorder:
        whole = generate(model, eos_token_id=-1)
    assert saved(recorder, tmp_path / "x") == whole[:, :-1].tolist()


def test_decoding_by_hand_ends_with_the_tokens_of_the_configuration(tmp_path):
    model = make("Mixtral").eval()
    model.generation_config.eos_token_id = END
    with modtf.record(model) as recorder, torch.inference_mode():
        output = model(TOKENS)
        for chosen in CHOSEN:
            output = model(torch.tensor(chosen)[:, None], cache=output.cache)
    whole = torch.cat([TOKENS, torch.tensor(CHOSEN).T], 1).tolist()
    assert saved(recorder, tmp_path / "x") == [whole[0], whole[1][:7], whole[2]]


def test_a_generation_that_goes_on_records_all_rows_again(tmp_path):
    """With one more token, or with several: a turn of a chat. What is fed first is input."""
    model = make("Mixtral").eval()
    cache = transformers.DynamicCache(config=model.config)
    turn = torch.randint(8, 40, (3, 4), generator=torch.Generator().manual_seed(1))
    with modtf.record(model) as recorder:
        first = generate(model, eos_token_id=END, steps=3, cache=cache)
        more = generate(model, first, steps=3, eos_token_id=END, cache=cache)
        third = generate(model, torch.cat([more, turn], 1), steps=2, eos_token_id=END, cache=cache)
    rows = third[:, :-1].tolist()
    assert rows[1][6:12] == [END, PAD, PAD, END, PAD, PAD]  # the first of each two is not recorded
    rows[1][6:12] = [END, PAD, END, PAD]
    assert saved(recorder, tmp_path / "y") == rows


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("steps", [1, 3])
def test_prompts_with_a_common_prefix_are_documents_of_their_own(rows, steps, tmp_path):
    """Each prompt begins with a copy of the prefix's cache. Row 1 ends in the first generation."""
    model = make("Mixtral").eval()
    prefix = torch.arange(3, 8).repeat(rows, 1)
    with torch.inference_mode():
        cache = model(prefix).cache
    expected = []
    with modtf.record(model) as recorder:
        for prompt in (TOKENS[:rows], TOKENS[:rows].flip(1)):
            chooser = Chooser([step[-rows:] for step in CHOSEN])
            whole = generate(
                model, torch.cat([prefix, prompt], 1), steps, cache=copy.deepcopy(cache),
                logits_processor=[chooser], eos_token_id=END,
            )  # fmt: skip
            lengths = [12 if END in row[11:-1] else len(row) - 1 for row in whole.tolist()]
            expected += [row[5:stop] for row, stop in zip(whole.tolist(), lengths, strict=True)]
    assert saved(recorder, tmp_path / "x") == expected


def test_transformers_is_left_as_it_was():
    methods = [transformers.StoppingCriteriaList.__call__, transformers.GenerationMixin.generate]
    model = make("Mixtral")
    with modtf.record(model), modtf.record(model):
        assert transformers.GenerationMixin.generate is not methods[1]
    assert [transformers.StoppingCriteriaList.__call__, transformers.GenerationMixin.generate] == methods


class Virtual(torch.nn.Module):
    """A model that begins with a cache of virtual tokens, as PEFT's prefix tuning has it."""

    def __init__(self, model):
        super().__init__()
        self.model = model
        with torch.no_grad():
            self.virtual = model(torch.arange(3, 8).repeat(3, 1)).cache

    def forward(self, input_ids, attention_mask):
        cache = copy.deepcopy(self.virtual)
        mask = torch.cat([torch.ones(len(input_ids), 5, dtype=torch.long), attention_mask], 1)
        return self.model(input_ids=input_ids, attention_mask=mask, cache=cache)


def test_a_cache_of_virtual_tokens_goes_on_with_nothing(tmp_path):
    model = Virtual(make("Mixtral").eval())
    batches = [{"input_ids": TOKENS, "attention_mask": torch.ones_like(TOKENS)}] * 2
    found = read(modtf.collect(model, batches, tmp_path / "x"))
    assert found["documents"].tolist() == np.repeat(range(6), 6).tolist()


def test_a_cache_that_is_cropped_goes_on_with_the_prefix_once(tmp_path):
    """The second prompt does not follow the first."""
    model = make("Mixtral").eval()
    with modtf.record(model) as recorder, torch.inference_mode():
        cache = model(TOKENS[:1]).cache
        model(TOKENS[1:2], cache=cache)
        cache.crop(-6)
        model(TOKENS[2:], cache=cache)
    first, second, third = TOKENS.tolist()
    assert saved(recorder, tmp_path / "x") == [first + second, third]


def test_copies_of_a_cache_are_documents_of_their_own(tmp_path):
    model = make("Mixtral").eval()
    with modtf.record(model) as recorder, torch.inference_mode():
        cache = model(TOKENS[:1]).cache
        for prompt in TOKENS[1:]:
            model(prompt[None], cache=copy.deepcopy(cache))
    assert saved(recorder, tmp_path / "x") == TOKENS.tolist()


def test_assisted_generation_is_one_document(tmp_path):
    """The cache drops what the model rejects of the assistant's tokens."""
    model = make("Mixtral").eval()
    with modtf.record(model) as recorder:
        whole = model.generate(
            TOKENS[:1].repeat(1, 3), attention_mask=torch.ones(1, 18), max_new_tokens=12, do_sample=False,
            prompt_lookup_num_tokens=3,
        )  # fmt: skip
    (found,) = saved(recorder, tmp_path / "x")
    assert len(found) > whole.shape[1] - 1  # with what is rejected


def test_a_layer_that_gets_tokens_without_the_cache_goes_on(tmp_path):
    """DeepSeek V4's first layers route by token, and get only the tokens."""
    model = make_family("deepseek_v4").eval()
    with modtf.record(model) as recorder:
        whole = model.generate(TOKENS, max_new_tokens=3, min_new_tokens=3, do_sample=False)
    assert saved(recorder, tmp_path / "x") == whole[:, :-1].tolist()
