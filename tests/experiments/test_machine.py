"""What is said of the machine that a run is made on."""

from pathlib import Path

import pytest

from tfcsr.experiments import machine

AMD = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel\t\t: 17\nmodel name\t: AMD EPYC\n"


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (f"{AMD}\n{AMD}", "AMD EPYC (family 25, model 17)"),
        (AMD.replace("17", "1"), "AMD EPYC (family 25, model 1)"),
        ("model name\t: ARMv8 Processor\nBogoMIPS\t: 50.00\n", "ARMv8 Processor"),
        ("processor\t: 0\nBogoMIPS\t: 50.00\n", "aarch64"),
        (None, "aarch64"),
    ],
)
def test_processors_of_one_name_are_told_apart(told, said, monkeypatch):
    def read(path, **_):
        if told is None:
            raise FileNotFoundError
        return told

    monkeypatch.setattr(Path, "read_text", read)
    monkeypatch.setattr(machine.platform, "processor", lambda: "")
    monkeypatch.setattr(machine.platform, "machine", lambda: "aarch64")
    assert machine.processor() == said
