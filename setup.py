"""Finds the packages: doap_tf; datasets/ and flags/ are installed as folders of it."""

from setuptools import find_namespace_packages, setup

_NOT = ["*__pycache__*", "*dummy_data*"]

setup(
    packages=[
        *find_namespace_packages(include=["doap_tf", "doap_tf.*"], exclude=_NOT),
        "doap_tf.datasets",
        "doap_tf.flags",
        *(f"doap_tf.datasets.{name}" for name in find_namespace_packages("datasets", _NOT)),
    ]
)
