"""Maps the repository's folders into the one import package, `modtf`.

`datasets`, `models`, `metrics` and `launch` are folders at the root for readers, but must never be
importable under those names once installed: they would shadow other people's packages.
"""

from pathlib import Path

from setuptools import find_packages, setup

FOLDERS = ("datasets", "models", "metrics", "launch")

package_dir = {"modtf": "modtf"} | {f"modtf.{folder}": folder for folder in FOLDERS}
inner = find_packages("modtf", exclude=[f"{folder}*" for folder in FOLDERS])  # the folders are links there
packages = ["modtf", *(f"modtf.{name}" for name in inner)]
for folder in FOLDERS:
    packages.append(f"modtf.{folder}")
    for name in find_packages(folder):
        packages.append(f"modtf.{folder}.{name}")
        package_dir[f"modtf.{folder}.{name}"] = str(Path(folder, *name.split(".")))

setup(package_dir=package_dir, packages=packages)
