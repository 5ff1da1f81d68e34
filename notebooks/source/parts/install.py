# On Colab and Kaggle this fetches and installs the lab, which takes some minutes; anywhere else it does nothing.
import importlib.util, os, subprocess, sys

if {"COLAB_RELEASE_TAG", "KAGGLE_KERNEL_RUN_TYPE"} & {*os.environ} and not importlib.util.find_spec("grader"):
    if not os.path.isdir("lab"):
        subprocess.run(["git", "clone", "--quiet", "--depth=1", "$REPOSITORY", "lab"], check=True)
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "-e", "lab[cuda,model]"], check=True)
    sys.path.insert(0, os.path.abspath("lab"))
