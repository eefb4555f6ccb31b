"""The command of doap_tf/commands/evaluate.py, also installed as doap-evaluate."""

from doap_tf.commands.evaluate import run

if __name__ == "__main__":
    run()
