"""What the unit, the image, the compose file and the manifests name is there.

Each is checked by its own tool in ``make lint-infra``. Here: flags are flags of the
command, variables are settings, ports and paths are those of the program.
"""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer
import yaml

from admin_api.app import create_app
from admin_api.health.reasons import PROBE_TIMEOUT_S
from broker.cli.app import app
from broker.cli.supervisor import LINGER_S, STOP_TIMEOUT_S
from broker.configuration.loading import load
from broker.node import STOP_S
from broker.settings import Settings

ROOT = Path(__file__).parents[2]
INFRA = ROOT / "infra"
UNIT = (INFRA / "systemd" / "lakelog.service").read_text()
UNIT_FACTS = dict(re.findall(r"^(\w+)=(.*)$", UNIT, re.MULTILINE))
IMAGE = (INFRA / "container" / "Containerfile").read_text()
COMPOSE = yaml.safe_load((INFRA / "container" / "compose.yaml").read_text())
MANIFESTS = INFRA / "kubernetes"


def manifest(name):
    return yaml.safe_load((MANIFESTS / f"{name}.yaml").read_text())


SET = manifest("stateful-set")["spec"]
POD = SET["template"]["spec"]
[CONTAINER] = POD["containers"]
IMAGE_ENVIRONMENT = dict(re.findall(r"\b(LAKELOG_\w+)=(\S+)", IMAGE))


def known_flags(words):
    """The flags among the words of a command; AssertionError where one is unknown."""
    command = typer.main.get_command(app)
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    flags = {word for word in words if word.startswith("-")}
    assert flags <= {flag for param in command.params for flag in param.opts}, words
    return flags


def settings_of(environment):
    """As the program reads them; SettingsError for what it does not know."""
    filled = {k: v.replace("$(POD_NAMESPACE)", "prod") for k, v in environment.items()}
    return load(environment=IMAGE_ENVIRONMENT | filled)


def port_of(address):
    return int(address.rpartition(":")[2])


def test_the_unit_starts_what_there_is_and_waits_for_its_word():
    facts = UNIT_FACTS
    program, *words = shlex.split(facts["ExecStart"])
    assert program == "/opt/lakelog/.venv/bin/lakelog"
    assert known_flags(words) == {"--config", "--data-dir"}
    assert words[-1] == f"/var/lib/{facts['StateDirectory']}"
    assert (facts["Type"], facts["KillMode"]) == ("notify", "mixed")
    assert f"NUMBA_CACHE_DIR=/var/cache/{facts['CacheDirectory']}" in UNIT
    settings = load(file=INFRA / "systemd" / "lakelog.toml", environment={})
    assert settings.log.format == "json"
    assert facts["Documentation"] == f"http://{settings.admin}/guide"


@pytest.mark.skipif(
    shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze"
)
def test_systemd_takes_the_unit(tmp_path):
    program = Path(sys.executable).parent / "lakelog"
    text = re.sub(r"^(User|Group)=.*\n", "", UNIT, flags=re.MULTILINE)
    unit = tmp_path / "lakelog.service"
    unit.write_text(text.replace("/opt/lakelog/.venv/bin/lakelog", str(program)))
    done = subprocess.run(
        ["systemd-analyze", "verify", unit], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_image_has_all_that_runs_and_starts_it():
    copied = re.findall(r"^COPY (.+) \S+$", IMAGE, re.MULTILINE)
    sources = {source for line in copied for source in line.split()}
    assert all((ROOT / source).exists() for source in sources)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {*packages, "requirements.lock", "infra"} <= sources
    assert "RUN infra/setup.sh" in IMAGE
    settings = settings_of({})
    assert f"VOLUME {settings.data_dir}\n" in IMAGE
    ports = port_of(settings.listener), port_of(settings.admin)
    assert f"EXPOSE {ports[0]} {ports[1]}\n" in IMAGE
    [entry, command] = re.findall(r"^(?:ENTRYPOINT|CMD) (\[.*\])$", IMAGE, re.MULTILINE)
    assert yaml.safe_load(entry)[-1] == "lakelog"
    assert known_flags(yaml.safe_load(command)) == set()


def test_the_compose_file_sets_what_there_is():
    own = COMPOSE["services"]["lakelog"]
    assert known_flags(own["command"]) == {"--insecure"}
    settings = settings_of(own["environment"])
    ports = [port.split(":") for port in own["ports"]]
    assert {host for host, _, _ in ports} == {"127.0.0.1"}
    inside = [int(port) for _, _, port in ports]
    assert inside[:2] == [port_of(settings.listener), port_of(settings.admin)]
    assert port_of(settings.advertised) == int(ports[0][1])
    assert own["volumes"] == [f"data:{settings.data_dir}"]
    folder = INFRA / "container"
    assert (folder / own["build"]["context"]).resolve() == ROOT
    assert (ROOT / own["build"]["dockerfile"]).exists()
    watching = COMPOSE["services"]["prometheus"]
    [mounted] = [volume.split(":")[0] for volume in watching["volumes"]]
    assert (folder / mounted / "scrape.yml").exists()
    assert watching["command"] == ["--config.file=/etc/prometheus/scrape.yml"]


def test_the_manifest_sets_what_there_is():
    assert known_flags(CONTAINER["args"]) == {"--insecure"}
    variables = {one["name"]: one.get("value", "") for one in CONTAINER["env"]}
    settings = settings_of(variables)
    assert settings.admin_hosts == "lakelog,lakelog.prod,lakelog.prod.svc"
    assert settings.advertised == "lakelog.prod.svc:9092"
    ports = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
    assert ports == {
        "kafka": port_of(settings.listener),
        "admin": port_of(settings.admin),
    }
    [mounted] = CONTAINER["volumeMounts"]
    assert mounted["mountPath"] == str(settings.data_dir)
    assert [one["metadata"]["name"] for one in SET["volumeClaimTemplates"]] == ["data"]
    assert SET["replicas"] == 1


def test_who_runs_the_image_may_write_where_its_data_lies():
    user, group = re.search(r"^USER (\d+):(\d+)$", IMAGE, re.MULTILINE).groups()
    assert re.findall(r"useradd .*--uid (\d+) --user-group", IMAGE) == [user] == [group]
    context = POD["securityContext"]
    assert (context["runAsUser"], context["runAsGroup"]) == (int(user), int(group))
    assert context["fsGroup"] == int(group), "a new volume is root's"


def seconds(text):
    """As systemd and Compose write them: 30, 30s, 15min."""
    number, unit = re.fullmatch(r"(\d+)(|s|m|min)", str(text)).groups()
    return int(number) * (60 if unit in ("m", "min") else 1)


def test_no_stop_is_cut_short():
    """`up` ends the others, then the broker; who does not go is killed, and what it
    left. A broker alone ends itself."""
    stop_s = max(STOP_S, 2 * (STOP_TIMEOUT_S + 2 * LINGER_S))
    assert POD["terminationGracePeriodSeconds"] > stop_s
    assert seconds(UNIT_FACTS["TimeoutStopSec"]) > stop_s
    assert seconds(COMPOSE["services"]["lakelog"]["stop_grace_period"]) > stop_s


def test_a_start_may_take_as_long_in_kubernetes_as_under_systemd():
    probe = CONTAINER["startupProbe"]
    longest_s = probe["periodSeconds"] * probe["failureThreshold"]
    assert longest_s == seconds(UNIT_FACTS["TimeoutStartSec"])


def test_a_service_of_our_name_does_not_reach_the_settings():
    """Kubernetes would say LAKELOG_PORT=tcp://..., which is refused."""
    assert POD["enableServiceLinks"] is False
    assert manifest("service")["metadata"]["name"] == "lakelog"


def test_probes_ask_what_anybody_may_ask():
    paths = create_app("127.0.0.1:1", Settings()).openapi()["paths"]
    for kind in ("startup", "readiness", "liveness"):
        probe = CONTAINER[f"{kind}Probe"]
        asked = probe.get("httpGet") or probe["tcpSocket"]
        assert asked["port"] in {port["name"] for port in CONTAINER["ports"]}
        if "path" in asked:
            assert not paths[asked["path"]]["get"].get("security")


def test_whether_clients_can_come_is_asked_where_that_is_said():
    """And so patiently that the plane can look first whether the broker answers."""
    probe = CONTAINER["readinessProbe"]
    assert probe["httpGet"] == {"path": "/readyz", "port": "admin"}
    health = COMPOSE["services"]["lakelog"]["healthcheck"]
    port = port_of(Settings().admin)
    assert f"urlopen('http://127.0.0.1:{port}/readyz')" in health["test"][-1]
    for patience_s in (probe["timeoutSeconds"], seconds(health["timeout"])):
        assert patience_s > PROBE_TIMEOUT_S
    assert health.get("retries", 3) > 0
    assert probe.get("failureThreshold", 3) > 0


def test_a_broker_that_is_not_ready_is_reached_and_lives():
    """It may have lost one table's file, and serve all the rest."""
    assert manifest("service")["spec"]["publishNotReadyAddresses"] is True
    for kind in ("startup", "liveness"):
        probe = CONTAINER[f"{kind}Probe"]
        assert probe.get("httpGet", {}).get("path") != "/readyz", kind


def test_the_image_that_the_guide_builds_is_asked_of_no_registry():
    """One without a tag would be pulled whenever a pod starts."""
    guide = (INFRA / "docs" / "install.md").read_text()
    [built] = re.findall(r"^docker build .*--tag (\S+) \.$", guide, re.MULTILINE)
    assert CONTAINER["image"] == COMPOSE["services"]["lakelog"]["image"] == built
    assert CONTAINER["imagePullPolicy"] == "IfNotPresent"


def test_the_manifests_belong_together():
    names = {path.name for path in MANIFESTS.glob("*.yaml")} - {"kustomization.yaml"}
    assert set(manifest("kustomization")["resources"]) == names
    labels = SET["template"]["metadata"]["labels"]
    assert SET["selector"]["matchLabels"] == labels
    service, policy = manifest("service")["spec"], manifest("network-policy")["spec"]
    assert service["selector"] == policy["podSelector"]["matchLabels"] == labels
    ports = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
    assert {p["targetPort"]: p["port"] for p in service["ports"]} == ports
    allowed = {p["port"] for rule in policy["ingress"] for p in rule["ports"]}
    assert allowed == ports.keys()
