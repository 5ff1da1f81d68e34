# On Colab and Kaggle this fetches and installs the lab, which takes some minutes; anywhere else it does nothing.
import importlib.util
import os
import subprocess
import sys

hosted = "COLAB_RELEASE_TAG" in os.environ or "KAGGLE_KERNEL_RUN_TYPE" in os.environ
if hosted and importlib.util.find_spec("grader") is None:
    if not os.path.isdir("lab"):
        subprocess.run(["git", "clone", "--quiet", "--depth=1", "$REPOSITORY", "lab"], check=True)
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "-e", "lab[cuda]"], check=True)
    sys.path.insert(0, os.path.abspath("lab"))
