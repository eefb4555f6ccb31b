"""The command of doap_tf/commands/train.py, also installed as doap-train."""

from doap_tf.commands.train import run

if __name__ == "__main__":
    run()
