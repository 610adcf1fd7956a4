"""What lies in deploy/ against the code: it parses, names only what exists, and opens nothing to the network by accident."""

import configparser
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from swarmd.cli.main import swarmd
from swarmd.config import ENV_OTHERS, load_config
from swarmd.errors import BY_NAME
from swarmd.metrics import Metrics

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
DASHBOARDS = sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))
RULES = sorted((DEPLOY / "prometheus" / "rules").glob("*.yml"))
UNITS = sorted((DEPLOY / "systemd").rglob("*.service"))
COMPOSE = sorted((DEPLOY / "compose").glob("*.yaml"))
DOCKERFILE = DEPLOY / "docker" / "Dockerfile"
SWARM_PORT = "4810"


class ComposeLoader(yaml.SafeLoader):
    """YAML with Compose's `!reset`, which takes a value away."""


ComposeLoader.add_constructor("!reset", lambda loader, node: None)


def load_yaml(path: Path) -> Any:
    return yaml.load(path.read_text(), ComposeLoader)


def services() -> list[tuple[str, dict[str, Any]]]:
    return [
        (f"{path.name}:{name}", service)
        for path in COMPOSE
        for name, service in load_yaml(path)["services"].items()
    ]


def expressions() -> list[tuple[str, str]]:
    """Every PromQL expression with where it stands."""
    found = []
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            found += [
                (f"{path.name}: {panel['title']}", target["expr"]) for target in panel.get("targets", ())
            ]
    for path in RULES:
        for group in load_yaml(path)["groups"]:
            found += [(f"{path.name}: {rule['alert']}", rule["expr"]) for rule in group["rules"]]
    return found


def unit(path: Path) -> dict[str, list[str]]:
    """The settings of a unit's sections together; systemd lets a key appear several times."""
    settings: dict[str, list[str]] = {}
    for line in path.read_text().splitlines():
        key, equals, value = line.partition("=")
        if equals and not line.startswith(("#", ";")):
            settings.setdefault(key, []).append(value)
    return settings


def series() -> dict[str, set[str]]:
    """Every name that /metrics can show, with its labels."""
    known: dict[str, set[str]] = {}
    for metric in vars(Metrics(["a"], ["b"])).values():
        kind, labels = getattr(metric, "_type", None), set(getattr(metric, "_labelnames", ()))
        suffixes = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_sum", "_count"]}
        for suffix in suffixes.get(str(kind), []):
            known[metric._name + suffix] = labels | ({"le"} if suffix == "_bucket" else set())
    return known


@pytest.mark.parametrize("path", sorted(DEPLOY.rglob("*.y*ml")), ids=lambda path: path.name)
def test_yaml_parses(path: Path) -> None:
    assert load_yaml(path)


def test_there_is_something_to_check() -> None:
    assert DASHBOARDS
    assert RULES
    assert UNITS
    assert len(COMPOSE) >= 2
    assert len(expressions()) > 20


@pytest.mark.parametrize(("place", "expression"), expressions())
def test_every_metric_and_label_exists(place: str, expression: str) -> None:
    known = series()
    for name, braces in re.findall(r"\b(swarmd_\w+)(\{[^}]*\})?", expression):
        assert name in known, f"{place} names {name}"
        labels = set(re.findall(r"(\w+)\s*[=!]~?", braces))
        assert labels <= known[name], f"{place}: {name} has no {labels - known[name]}"
    grouped = {
        label.strip() for group in re.findall(r"\bby\s*\(([^)]*)\)", expression) for label in group.split(",")
    }
    all_labels = set().union(*(known[name] for name in re.findall(r"\bswarmd_\w+", expression)))
    assert grouped <= all_labels | {"instance", "job"}, place


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.name)
def test_panels_do_not_overlap_and_say_how_to_read_them(path: Path) -> None:
    panels, taken = json.loads(path.read_text())["panels"], set[tuple[int, int]]()
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        columns, rows = range(place["x"], place["x"] + place["w"]), range(place["y"], place["y"] + place["h"])
        cells = {(x, y) for x in columns for y in rows}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        assert panel["type"] == "row" or len(panel["description"]) > 20
        taken |= cells


@pytest.mark.parametrize("path", RULES, ids=lambda path: path.name)
def test_every_alert_says_what_to_do(path: Path) -> None:
    for rule in (rule for group in load_yaml(path)["groups"] for rule in group["rules"]):
        assert set(rule["annotations"]) == {"summary", "action"}, rule["alert"]
        assert re.fullmatch(r"\d+[smhd]", rule.get("for", "0s")), rule["alert"]
        assert rule["labels"]["severity"] in {"critical", "warning"}


def test_images_are_pinned() -> None:
    images = [service["image"] for _, service in services()]
    images += [
        line.split()[1] for line in DOCKERFILE.read_text().splitlines() if re.match(r"FROM \S+:", line)
    ]
    for image in images:
        assert re.search(r":v?\d+\.\d+\.\d+", image), f"{image} is not pinned to a release"


@pytest.mark.parametrize(
    ("name", "service"), services(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_only_the_swarms_port_is_open_to_the_network(name: str, service: dict[str, Any]) -> None:
    for port in service.get("ports", ()):
        assert port.startswith("127.0.0.1:") or port == f"{SWARM_PORT}:{SWARM_PORT}/tcp", (
            f"{name} opens {port}"
        )


@pytest.mark.parametrize("name", ["node", "prometheus", "grafana"])
def test_containers_get_no_privileges(name: str) -> None:
    service = load_yaml(DEPLOY / "compose" / "compose.yaml")["services"][name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]


def test_prometheus_asks_where_the_node_answers() -> None:
    node = load_yaml(DEPLOY / "compose" / "compose.yaml")["services"]["node"]
    (target,) = load_yaml(DEPLOY / "prometheus" / "prometheus.yml")["scrape_configs"][0]["static_configs"][0][
        "targets"
    ]
    host, port = target.split(":")
    assert host == node["hostname"] == node["environment"]["SWARMD_CONTROL__METRICS_HOST"]
    assert int(port) == load_config(flags={}, environ={}).control.metrics_port


@pytest.mark.parametrize(
    ("name", "service"), services(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_setting_in_the_environment_exists(name: str, service: dict[str, Any]) -> None:
    environment = {
        key: re.sub(r"\$\{\w+:-(.*?)\}", r"\1", value)
        for key, value in service.get("environment", {}).items()
    }
    load_config(flags={}, environ=environment)


def test_the_image_sets_no_unknown_variable() -> None:
    assert set(re.findall(r"\bSWARMD_\w+", DOCKERFILE.read_text())) <= ENV_OTHERS


@pytest.mark.parametrize(
    ("name", "service"), services(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_command_line_is_understood(name: str, service: dict[str, Any]) -> None:
    arguments = service.get("command", ["--help"])
    command, options = arguments[0], [word for word in arguments if word.startswith("--")]
    said = CliRunner().invoke(swarmd, [command, "--help"] if command != "--help" else ["--help"])
    assert said.exit_code == 0, name
    assert all(option in said.output for option in options)


@pytest.mark.parametrize("target", ["node-cpu", "node-gpu"])
def test_the_image_runs_without_root_and_says_how_it_is(target: str) -> None:
    stage = DOCKERFILE.read_text().split(f" AS {target}\n")[1].split("\nFROM ")[0]
    assert re.search(r"^USER 10001:10001$", stage, re.M)
    assert '["swarmd", "healthcheck"]' in stage
    assert 'ENTRYPOINT ["swarmd"]' in stage


def test_everything_the_image_copies_is_let_into_its_context() -> None:
    allowed = (DEPLOY / "docker" / "Dockerfile.dockerignore").read_text().split()
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE.read_text(), re.M)
    for source in " ".join(copied).split():
        assert f"!{source}" in allowed, source
        assert (DEPLOY.parent / source).exists(), source


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_the_unit_starts_a_node_as_nobody_in_particular(path: Path) -> None:
    settings = unit(path)
    assert settings["ExecStart"][-1].endswith("/swarmd start")
    assert settings["DynamicUser"] == ["yes"]
    assert settings["NoNewPrivileges"] == ["yes"]
    assert settings["CapabilityBoundingSet"] == [""]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_the_unit_gives_up_only_on_exit_codes_that_exist(path: Path) -> None:
    codes = {int(code) for code in unit(path)["RestartPreventExitStatus"][0].split()}
    assert codes <= {kind.exit_code for kind in BY_NAME.values()}
    assert not codes & {1, 12, 75}


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_the_unit_lets_the_scorer_lock_itself_down(path: Path) -> None:
    allowed = " ".join(value for value in unit(path)["SystemCallFilter"] if not value.startswith("~")).split()
    assert {"seccomp", "landlock_create_ruleset", "landlock_restrict_self"} <= set(allowed)


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_the_unit_has_the_three_sections(path: Path) -> None:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(path)
    assert parser.sections() == ["Unit", "Service", "Install"]
