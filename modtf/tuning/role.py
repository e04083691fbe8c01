"""Who a process is among those that tune together: what KerasTuner's variables say."""

import os
import re
from dataclasses import dataclass

ID, IP, PORT = "KERASTUNER_TUNER_ID", "KERASTUNER_ORACLE_IP", "KERASTUNER_ORACLE_PORT"
ALONE = "tuner0"  # KerasTuner's name for who tunes alone


@dataclass(frozen=True)
class Role:
    """A process that tunes alone; or a chief, which hands out trials; or one of its workers."""

    tuner_id: str
    address: str = ""  # of the chief; "" for who tunes alone

    @property
    def is_chief(self) -> bool:
        return bool(self.address) and "chief" in self.tuner_id

    @property
    def is_worker(self) -> bool:
        return bool(self.address) and not self.is_chief


def role_here() -> Role:
    """The role that the environment gives this process.

    Raises:
        ValueError: if it sets some of the variables that belong together.
    """
    found = {name: os.environ.get(name) for name in (ID, IP, PORT)}
    tuner_id = found[ID] or ALONE
    if not re.fullmatch(r"[\w-][\w.-]*", tuner_id):
        raise ValueError(f"{ID}={tuner_id!r} is not valid; expected letters, digits, '-', '_' and '.'.")
    if found[IP] is None and found[PORT] is None:
        if "chief" in tuner_id:
            raise ValueError(f"{ID}={tuner_id!r} makes this process a chief; set {IP} and {PORT}, too.")
        return Role(tuner_id)
    if lacking := [name for name, value in found.items() if not value]:
        raise ValueError(
            f"{' and '.join(lacking)} must be set, too: a chief and its workers need {ID} (with 'chief' in "
            f"the chief's), {IP} and {PORT}."
        )
    if not str(found[PORT]).isdecimal():
        raise ValueError(f"{PORT}={found[PORT]!r} is not valid; expected the number of a port.")
    return Role(tuner_id, f"{found[IP]}:{found[PORT]}")
