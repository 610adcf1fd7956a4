"""Folders made by an attacker: each is refused with its reason, and of the others the libraries see nothing but what passed."""

import contextlib
import json
import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file

from swarmd.errors import ModelUnavailable
from swarmd.policy.model.folder import read_folder
from swarmd.policy.model.loading import load_model, load_tokeniser
from swarmd.policy.model.resolve import resolve_model
from swarmd.policy.model.staged import stage
from swarmd.policy.state.export import export_checkpoint
from tests.policy import tiny_models
from tests.policy.services import started

INDEX = "model.safetensors.index.json"
Json = dict[str, Any]


@pytest.fixture
def folder(model_dir: Path, tmp_path: Path) -> Path:
    """A copy of a random Qwen2 that an attacker may change."""
    return Path(shutil.copytree(model_dir, tmp_path / "model"))


def edit(folder: Path, file: str, **changes: Any) -> None:
    path = folder / file
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**content, **changes}))


def deep(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


def shard(folder: Path, name: Any) -> None:
    """Name the weights by an index."""
    (folder / "model.safetensors").rename(folder / "model-1.safetensors")
    (folder / INDEX).write_text(json.dumps({"weight_map": {"a": "model-1.safetensors", "b": name}}))


@pytest.mark.parametrize("key", ["attn_implementation", "_attn_implementation", "experts_implementation"])
@pytest.mark.parametrize("value", ["org/kernel", "org/kernel@main:forward", {"text_config": "org/kernel"}])
def test_code_to_download_is_refused_by_its_key(folder: Path, key: str, value: Any) -> None:
    edit(folder, "config.json", **{key: value})
    with pytest.raises(ModelUnavailable, match=f"{key} names code to download") as caught:
        resolve_model(str(folder))
    assert caught.value.exit_code == 13


@pytest.mark.parametrize("file", ["config.json", "generation_config.json", "tokenizer_config.json"])
@pytest.mark.parametrize(
    "changes",
    [
        {"auto_map": {"AutoModel": "org/repo--x.Y"}},
        {"custom_generate": "org/repo"},
        {"trust_remote_code": True},
        {"transformers_weights": "other.bin"},
        {"kernel_config": {"RMSNorm": "org/kernel"}},
        {"text_config": {"sub": [{"auto_map": {"AutoConfig": "x.Y"}}]}},
        {"tokenizer_class": "org/repo--x.Y"},
        {"tokenizer_class": ["Qwen2Tokenizer"]},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_what_names_code_is_refused_in_every_file_at_every_depth(
    folder: Path, file: str, changes: Json
) -> None:
    edit(folder, file, **changes)
    with pytest.raises(ModelUnavailable, match=file):
        resolve_model(str(folder))


@pytest.mark.parametrize("key", ["quantization_config", "compression_config"])
def test_quantised_weights_are_refused_however_they_are_named(folder: Path, key: str) -> None:
    edit(folder, "config.json", **{key: {"quant_method": "x"}})
    with pytest.raises(ModelUnavailable, match="quantised"):
        resolve_model(str(folder))


def test_an_adapter_that_leads_to_another_model_is_refused(folder: Path, tmp_path: Path) -> None:
    edit(folder, "adapter_config.json", base_model_name_or_path=str(tmp_path / "other"), peft_type="LORA")
    with pytest.raises(ModelUnavailable, match="the model that it names instead"):
        resolve_model(str(folder))


@pytest.mark.parametrize("name", ["../outside.safetensors", "/etc/passwd", "a.bin", "", ".", 7, None, ["a"]])
def test_weights_are_named_within_the_folder(folder: Path, name: Any) -> None:
    (folder.parent / "outside.safetensors").write_bytes(b"")
    shard(folder, name)
    with pytest.raises(ModelUnavailable, match="as a file of the weights"):
        resolve_model(str(folder))


@pytest.mark.parametrize("weight_map", [None, [], "x", 3])
def test_an_index_without_a_map_is_refused(folder: Path, weight_map: Any) -> None:
    (folder / "model.safetensors").unlink()
    (folder / INDEX).write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(ModelUnavailable):
        resolve_model(str(folder))


@pytest.mark.parametrize(
    "file", ["model.safetensors", "tokenizer.json", "config.json", "chat_template.jinja", "LICENSE"]
)
def test_a_link_that_leads_out_of_the_folder_is_refused(folder: Path, tmp_path: Path, file: str) -> None:
    secret = tmp_path / "secret"
    (shutil.copyfile(folder / file, secret) if (folder / file).exists() else secret.touch())
    (folder / file).unlink(missing_ok=True)
    (folder / file).symlink_to(secret)
    with pytest.raises(ModelUnavailable, match="leads out of the folder"):
        resolve_model(str(folder))


def test_the_links_of_the_hubs_cache_are_taken(folder: Path, tmp_path: Path) -> None:
    snapshot, blobs = tmp_path / "cache" / "snapshots" / "c0ffee", tmp_path / "cache" / "blobs"
    snapshot.mkdir(parents=True)
    folder.rename(blobs)
    for file in blobs.iterdir():
        (snapshot / file.name).symlink_to(f"../../blobs/{file.name}")
    assert resolve_model(str(snapshot)).architecture == "Qwen2ForCausalLM"


@pytest.mark.parametrize("file", ["config.json", "tokenizer_config.json", "generation_config.json"])
@pytest.mark.parametrize("levels", [50, 100_000])
def test_deep_json_is_refused(folder: Path, file: str, levels: int) -> None:
    text = deep(levels)
    old = (folder / file).read_text().strip()
    (folder / file).write_text(f'{old[:-1]}, "a": {text}}}')
    with pytest.raises(ModelUnavailable, match="nested"):
        resolve_model(str(folder))


def test_a_deep_header_is_refused(folder: Path) -> None:
    text = deep(100_000).encode()
    (folder / "model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text)
    with pytest.raises(ModelUnavailable, match=r"model\.safetensors"):
        resolve_model(str(folder))


@pytest.mark.parametrize(
    "header", ["7", "[]", '"x"', '{"a": 1}', '{"a": {"shape": [-1], "data_offsets": [0, 4]}}']
)
def test_a_strange_header_is_refused(folder: Path, header: str) -> None:
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header.encode())
    with pytest.raises(ModelUnavailable, match=r"model\.safetensors"):
        resolve_model(str(folder))


@pytest.mark.parametrize("key", ["num_hidden_layers", "num_experts"])
def test_more_layers_than_tensors_are_refused_before_they_are_made(folder: Path, key: str) -> None:
    edit(folder, "config.json", **{key: 10**9})
    with pytest.raises(ModelUnavailable, match=f"{key} 1000000000"):
        resolve_model(str(folder))


@pytest.mark.parametrize("value", ["x", -1, 0, [], {"a": 1}, None, True, 10**400, "inf"])
@pytest.mark.parametrize(
    "key", ["hidden_size", "num_attention_heads", "hidden_act", "rope_parameters", "vocab_size"]
)
def test_a_strange_value_costs_an_error_and_no_traceback(folder: Path, key: str, value: Any) -> None:
    edit(folder, "config.json", **{key: value})
    with contextlib.suppress(ModelUnavailable):
        resolve_model(str(folder))
        load_model(folder, "cpu")


@pytest.mark.parametrize("eos", ["abc", ["a"], [[1]], {"a": 1}, 1.5, [True]])
def test_an_end_token_is_a_number(folder: Path, eos: Any) -> None:
    edit(folder, "generation_config.json", eos_token_id=eos)
    with pytest.raises(ModelUnavailable, match="tokenizer"):
        load_tokeniser(folder)


def test_a_tensor_of_many_dimensions_is_refused(folder: Path) -> None:
    header = json.dumps({"a": {"dtype": "F32", "shape": [1] * 17, "data_offsets": [0, 4]}}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(4))
    with pytest.raises(ModelUnavailable, match="more than 16 dimensions"):
        resolve_model(str(folder))


@pytest.mark.parametrize("shape", [[2**53] * 100_000, [2**53] * 10, [3], [[1]], "11", 1])
def test_a_shape_that_its_bytes_have_no_room_for_is_refused_at_once(folder: Path, shape: Any) -> None:
    header = json.dumps({"a": {"dtype": "F64", "shape": shape, "data_offsets": [0, 0]}}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    began_s = time.process_time()
    with pytest.raises(ModelUnavailable, match="cannot be read"):
        resolve_model(str(folder))
    assert time.process_time() - began_s < 2


@pytest.mark.parametrize(
    "changes",
    [{"text_config": {"num_hidden_layers": 10**8}}, {"decoder_layers": 10**8}, {"a": [{"n_layer": 10**8}]}],
)
def test_more_layers_than_tensors_are_refused_whatever_they_are_called(folder: Path, changes: Json) -> None:
    edit(folder, "config.json", **changes)
    with pytest.raises(ModelUnavailable, match="100000000, and the weights have"):
        resolve_model(str(folder))


def test_a_config_that_asks_for_more_than_the_weights_hold_is_refused_before_it_takes_memory(
    folder: Path,
) -> None:
    edit(folder, "config.json", vocab_size=10**9)
    with pytest.raises(ModelUnavailable, match="parameters, and its weights hold"):
        load_model(folder, "cpu")


def test_weights_that_lack_a_tensor_are_no_model(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    del weights["model.norm.weight"]
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(ModelUnavailable, match="lack 1 of the tensors"):
        load_model(folder, "cpu")


def test_a_file_past_its_limit_is_refused(folder: Path) -> None:
    os.truncate(folder / "tokenizer.json", 129 * 2**20)
    with pytest.raises(ModelUnavailable, match="the limit is 134217728"):
        resolve_model(str(folder))


def test_a_pipe_is_refused_and_not_waited_for(folder: Path) -> None:
    (folder / "tokenizer_config.json").unlink()
    os.mkfifo(folder / "tokenizer_config.json")
    with pytest.raises(ModelUnavailable, match="no plain file"):
        resolve_model(str(folder))


def test_a_broken_tokenizer_is_told_and_no_traceback(folder: Path) -> None:
    (folder / "tokenizer.json").write_text(deep(10_000))
    with pytest.raises(ModelUnavailable, match="tokenizer"):
        load_tokeniser(folder)


@pytest.mark.parametrize(
    "file", ["model.py", "params.json", "hf_quant_config.json", "modules.json", "pytorch_model.bin"]
)
def test_other_files_are_not_there_for_the_libraries(folder: Path, tmp_path: Path, file: str) -> None:
    (folder / file).write_text("{}")
    staged = stage("m", folder, tmp_path / "staged")
    assert sorted(path.name for path in staged.iterdir()) == [
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


@pytest.mark.parametrize(
    ("file", "key", "value"),
    [
        ("config.json", "_attn_implementation", "flash_attention_2"),
        ("config.json", "_name_or_path", "org/base"),
        ("config.json", "finetuned_from", "org/base"),
        ("tokenizer_config.json", "tokenizer_file", "../outside/tokenizer.json"),
        ("tokenizer_config.json", "vocab_file", "passwd"),
        ("tokenizer_config.json", "special_tokens_map_file", "/root/.cache/x.json"),
        ("tokenizer_config.json", "init_inputs", ["x"]),
        ("generation_config.json", "assistant_model", "org/draft"),
    ],
)
def test_what_names_a_place_is_left_out_with_a_word(
    folder: Path, tmp_path: Path, file: str, key: str, value: Any
) -> None:
    edit(folder, file, **{key: value})
    said: list[str] = []
    staged = stage("m", folder, tmp_path / "staged", said.append)
    assert key not in json.loads((staged / file).read_text())
    assert said == [f"! model      {file}: left out {key}"]


def test_a_staged_model_is_the_same_model(folder: Path, tmp_path: Path) -> None:
    staged = stage("m", folder, tmp_path / "staged")
    mine, theirs = load_model(staged, "cpu").state_dict(), load_model(folder, "cpu").state_dict()
    assert all(theirs[name].equal(tensor) for name, tensor in mine.items())
    assert load_tokeniser(staged).prompt_ids("one?") == load_tokeniser(folder).prompt_ids("one?")
    assert resolve_model(str(folder)).config == json.loads((staged / "config.json").read_text())


def test_a_staged_model_is_made_anew_at_each_start(folder: Path, tmp_path: Path) -> None:
    stage("m", folder, tmp_path / "staged")
    edit(folder, "config.json", vocab_size=77)
    assert (
        json.loads((stage("m", folder, tmp_path / "staged") / "config.json").read_text())["vocab_size"] == 77
    )


def test_an_export_holds_nothing_that_did_not_pass(folder: Path, tmp_path: Path) -> None:
    (folder / "secrets.json").write_text("{}")
    edit(folder, "tokenizer_config.json", tokenizer_file="/etc/passwd")
    started(stage("random", folder, tmp_path / "staged"), checkpoints=tmp_path / "c").update(
        [], round=1, state={}, save="now"
    )
    export_checkpoint(tmp_path / "c", read_folder("random", folder), tmp_path / "out")
    assert not (tmp_path / "out" / "secrets.json").exists()
    assert "passwd" not in (tmp_path / "out" / "tokenizer_config.json").read_text()


@pytest.mark.parametrize("kind", tiny_models.KINDS)
def test_families_pass_whole(kind: str, model_dir: Path, tmp_path: Path) -> None:
    tiny_models.build(kind).save_pretrained(tmp_path / "model")
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(model_dir / file, tmp_path / "model" / file)
    said: list[str] = []
    stage("m", tmp_path / "model", tmp_path / "staged", said.append)
    assert said == []
    assert load_model(tmp_path / "staged", "cpu").num_parameters() > 0


# What their makers wrote, as on the hub in 2026, without the sizes.
PUBLISHED: dict[str, Json] = {
    "Qwen2.5-0.5B": {
        "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151645,
        "hidden_act": "silu", "max_window_layers": 21, "model_type": "qwen2", "rms_norm_eps": 1e-06, "rope_theta": 1000000.0,
        "sliding_window": 32768, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "transformers_version": "4.43.1",
        "use_cache": True, "use_sliding_window": False,
    },
    "Qwen3-0.6B": {
        "architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "head_dim": 128, "model_type": "qwen3",
        "rope_scaling": None, "sliding_window": None, "torch_dtype": "bfloat16", "transformers_version": "4.51.0",
    },
    "Llama-3.2-1B": {
        "architectures": ["LlamaForCausalLM"], "eos_token_id": [128001, 128008, 128009], "mlp_bias": False,
        "model_type": "llama", "pretraining_tp": 1, "transformers_version": "4.45.0.dev0",
        "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
                         "low_freq_factor": 1.0, "rope_type": "llama3"},
    },
    "SmolLM2-135M": {
        "architectures": ["LlamaForCausalLM"], "is_llama_config": True, "model_type": "llama", "rope_interleaved": False,
        "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16", "fp16": "float16"}},
    },
    "gemma-2-2b": {
        "architectures": ["Gemma2ForCausalLM"], "attn_logit_softcapping": 50.0, "cache_implementation": "hybrid",
        "final_logit_softcapping": 30.0, "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
        "model_type": "gemma2", "query_pre_attn_scalar": 224,
    },
}  # fmt: skip


@pytest.mark.parametrize("config", PUBLISHED.values(), ids=PUBLISHED)
def test_published_configs_pass_whole(folder: Path, tmp_path: Path, config: Json) -> None:
    edit(folder, "config.json", **config)
    said: list[str] = []
    stage("m", folder, tmp_path / "staged", said.append)
    assert said == []


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        ("{{ ''.__class__.__mro__ }}", "unsafe"),
        ("{% include '/etc/passwd' %}", "no loader"),
        ("{% for i in range(10**9) %}x{% endfor %}", "Range too big"),
        ("{% for i in range(99999) %}xxxx{% endfor %}", "more than 65536 characters"),
        ("{{ 'a' * 10**10 }}", "MemoryError"),
        ("{{ '%1000000000d' % 1 }}", "MemoryError"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError"),
        ("{{ raise_exception('no') }}", "no"),
        ("{% if", "TemplateSyntaxError"),
        ("{{ messages[0].content | upper }}", "as it is"),
        ("{{ messages[0].content }}{{ messages[0].content }}", "once"),
        ("{{ 'x' if messages[0].content.startswith(' ') else messages[0].content }}", "differently"),
        ("{{ messages[0].content }}{{ '\\ud800' }}", "surrogate"),
        ("{# " + "x" * 2**18 + " #}{{ messages[0].content }}", "the limit is"),
    ],
)
def test_a_hostile_chat_template_is_refused(folder: Path, template: str, reason: str) -> None:
    (folder / "chat_template.jinja").write_text(template)
    with pytest.raises(ModelUnavailable, match="chat template cannot be used") as caught:
        load_tokeniser(folder)
    assert reason in caught.value.why


@pytest.mark.parametrize(
    "template",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% set x = 10 ** (10 ** 9) %}",
    ],
)
def test_a_template_that_computes_for_ever_is_ended(folder: Path, template: str) -> None:
    (folder / "chat_template.jinja").write_text(template)
    with pytest.raises(ModelUnavailable, match="more time or memory"):
        load_tokeniser(folder)
