"""The command of doap_tf/commands/prepare.py, also installed as doap-prepare."""

from doap_tf.commands.prepare import run

if __name__ == "__main__":
    run()
