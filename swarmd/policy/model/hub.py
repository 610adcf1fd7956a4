"""Models of the Hugging Face hub: the local cache first, then the network, and a message that tells the failures apart."""

import errno
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from swarmd.errors import DiskFull, ModelUnavailable, Temporary
from swarmd.policy.model.allowed import INDEX_FILE, JSON_FILES, LICENCES, OTHER_FILES
from swarmd.policy.model.folder import ResolvedModel, chats, check_architecture, read_folder, read_json

# The files of a causal language model in safetensors; everything else in a repository stays there.
_FILES = ["*.safetensors", INDEX_FILE, *JSON_FILES, *OTHER_FILES, *LICENCES]
_NOT_FILES = ["*/*", "consolidated*"]
_TIMEOUT_S = 10.0
_PROGRESS_EVERY_S = 1.0


def resolve_repository(name: str, repo_id: str) -> ResolvedModel:
    """A repository's facts, from a whole copy in the local cache or else from the hub; no weights are fetched.

    Raises:
        ModelUnavailable: no such repository, gated, unsupported, or not in the cache while `HF_HUB_OFFLINE` is set.
        Temporary: not in the cache, and the hub does not answer.
    """
    from huggingface_hub import HfApi, constants, hf_hub_download

    cached = _cached(name, repo_id)
    if cached is not None:
        return cached
    if constants.HF_HUB_OFFLINE:
        raise ModelUnavailable(
            f"model {repo_id} is not in the local cache",
            f"{constants.HF_HUB_CACHE} does not hold all of it, and downloads are off",
            "allow downloads (no --offline, no HF_HUB_OFFLINE), or name a folder",
        )
    with _explained(repo_id):
        info = HfApi().model_info(repo_id, timeout=_TIMEOUT_S)
        revision, files = str(info.sha), {sibling.rfilename for sibling in info.siblings or ()}
        wanted = files & {"config.json", "tokenizer_config.json", "chat_template.jinja"}
        paths = {file: Path(hf_hub_download(repo_id, file, revision=revision)) for file in sorted(wanted)}
    if "config.json" not in paths:
        raise ModelUnavailable(f"{repo_id} is not a model of transformers", "it has no config.json")
    if not any(file.endswith(".safetensors") for file in files):
        raise ModelUnavailable(f"model {repo_id} has no weights in safetensors format")
    config = read_json(name, paths["config.json"])
    return ResolvedModel(
        name=name,
        kind="hub",
        path=None,
        repo_id=repo_id,
        revision=revision,
        architecture=check_architecture(name, config),
        has_chat_template=chats(name, paths["config.json"].parent),
        num_parameters=info.safetensors.total if info.safetensors else None,
        config=config,
    )


def download_repository(model: ResolvedModel, told: Callable[[int, int], None]) -> Path:
    """Fetch what is missing of a resolved hub model into the local cache. Raises as `models.download_model` says."""
    from huggingface_hub import snapshot_download

    assert model.repo_id is not None
    with _explained(model.repo_id):
        path = snapshot_download(
            model.repo_id,  # its main branch: only then does the cache note which commit that is
            allow_patterns=_FILES,
            ignore_patterns=_NOT_FILES,
            tqdm_class=_progress_class(told),
        )
    read_folder(model.name, Path(path), kind="hub", repo_id=model.repo_id)
    return Path(path)


def _cached(name: str, repo_id: str) -> ResolvedModel | None:
    """The cached copy of the repository's main branch when every weight file is there; else None."""
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(repo_id, "config.json")
    if not isinstance(config, str):
        return None
    snapshot = Path(config).parent
    check_architecture(name, read_json(name, Path(config)))
    try:
        return read_folder(name, snapshot, kind="hub", repo_id=repo_id)
    except ModelUnavailable:
        return None  # partly downloaded: the download goes on from there


_CLIENT_GONE = re.compile(
    r"client has been closed|'NoneType' object has no attribute '(stream|request|send)'"
)


@contextmanager
def _explained(repo_id: str) -> Iterator[None]:
    """Turn the hub's exceptions into ours."""
    from huggingface_hub import errors

    transport_error: type[Exception] = errors.HTTPError  # type: ignore[attr-defined]  # httpx or httpx2, as it likes
    page = f"https://huggingface.co/{repo_id}"
    try:
        yield
    except errors.GatedRepoError as error:
        raise ModelUnavailable(
            f"model {repo_id} is gated",
            f"its owner asks for consent at {page}",
            "agree there, then: hf auth login",
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise _absent(repo_id) from error
    except errors.LocalEntryNotFoundError as error:
        raise _unreachable(repo_id, error.__cause__ or error) from error
    except errors.HfHubHTTPError as error:
        status = error.response.status_code
        if status == 401:
            raise _absent(repo_id) from error
        if status == 403:
            why = str(error).partition("\n")[0]
            raise ModelUnavailable(f"the hub refuses model {repo_id}", why, "hf auth login") from error
        raise _unreachable(repo_id, error) from error
    except transport_error as error:
        raise _unreachable(repo_id, error) from error
    except (RuntimeError, AttributeError) as error:
        # A lost connection closes the client that all threads of a download share; the others then find it closed, or gone.
        if not _CLIENT_GONE.search(str(error)):
            raise
        raise _unreachable(repo_id, error) from error
    except OSError as error:
        if error.errno == errno.ENOSPC:
            raise DiskFull(
                f"no space to download {repo_id}", str(error), "free space, or move HF_HOME"
            ) from error
        raise _unreachable(repo_id, error) from error


def _absent(repo_id: str) -> ModelUnavailable:
    """Without a token the hub gives one answer for what does not exist and for what is private."""
    return ModelUnavailable(
        f"the hub knows no model {repo_id}",
        "there is none of this name, or it is private",
        "check the spelling; for a private model: hf auth login",
    )


def _unreachable(repo_id: str, error: BaseException) -> Temporary:
    return Temporary(
        f"model {repo_id} is not in the local cache and the hub does not answer",
        f"{type(error).__name__}: {error}".partition("\n")[0],
        "check the connection (HTTPS_PROXY, HF_ENDPOINT), or name a folder as the model",
    )


def _progress_class(told: Callable[[int, int], None]) -> type[object]:
    """A tqdm class that shows nothing and reports bytes to `told`."""
    from tqdm import tqdm  # type: ignore[import-untyped]

    class Progress(tqdm):  # type: ignore[misc]
        def __init__(self, *args: object, **kwargs: object) -> None:
            kwargs.pop("name", None)
            self._in_bytes = kwargs.get("unit") == "B"
            self._reported_s = 0.0
            super().__init__(*args, **{**kwargs, "disable": False, "gui": False})

        def display(self, msg: str | None = None, pos: int | None = None) -> bool:
            return True

        def update(self, n: float | None = 1) -> None:
            super().update(n)
            now_s = time.monotonic()
            if self._in_bytes and (now_s - self._reported_s >= _PROGRESS_EVERY_S or self.n == self.total):
                self._reported_s = now_s
                told(int(self.n), int(self.total or 0))

    return Progress
